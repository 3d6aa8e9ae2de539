"""One db.session per request, from Flask-SQLAlchemy over the tables of db.schema; no second set of models.

A GET reads in a transaction that cannot write and does not wait for long.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import Session

from outbox_admin.db.schema import metadata


class _OverEngine(SQLAlchemy):
    """Flask-SQLAlchemy makes engines from URLs; ours exists already, prepared and perhaps shared with a worker."""

    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(metadata=metadata, disable_autonaming=True)
        self._given = engine

    def _make_engine(self, bind_key: str | None, options: dict[str, Any], app: Flask) -> sa.Engine:
        return self._given


def attach(app: Flask, engine: sa.Engine) -> SQLAlchemy:
    """Registers the extension on a stand-alone console."""
    app.config["SQLALCHEMY_DATABASE_URI"] = engine.url
    db = _OverEngine(engine)
    db.init_app(app)
    return db


def session_of(db: SQLAlchemy) -> Session:
    """The session of this request."""
    return cast(Session, db.session())


def begin_reading(db: Session, *, limit: timedelta) -> None:
    """For a GET, before its first query. Inside a transaction that a host has begun already nothing is changed.

    A statement that takes longer than ``limit`` is cancelled (PostgreSQL), for that transaction alone: it holds no row
    and no snapshot for longer, and a pooler's connection is as it was.
    """
    if db.in_transaction():
        return
    connection = db.connection(execution_options={"sqlite_begin": "DEFERRED", "postgresql_readonly": True})
    if connection.dialect.name == "postgresql":
        # Sent as text: a parameter would be one more statement to prepare.
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {limit // timedelta(milliseconds=1)}")
