"""Puts the console together: as an application of its own, or inside a host's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy

from outbox_admin.web.settings import WebSettings


def create_app(
    settings: WebSettings,
    *,
    engine: sa.Engine,
    clock: Callable[[], datetime] | None = None,
) -> Flask:
    """The stand-alone console over ``engine``. ``clock`` None: the database's own clock."""
    raise NotImplementedError


def mount(
    app: Flask,
    *,
    db: SQLAlchemy,
    settings: WebSettings,
    url_prefix: str = "/outbox",
    clock: Callable[[], datetime] | None = None,
) -> None:
    """The console inside ``app``, over the Flask-SQLAlchemy instance that it has already."""
    raise NotImplementedError
