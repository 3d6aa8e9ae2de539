"""One migrated database for each test, as a copy of one that was migrated once.

The schema is the product's own; nothing here knows a table. Servers are started elsewhere.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa

from outbox_admin.db.engine import DIRECT, PREPARED_FROM, create
from outbox_admin.db.migrations import upgrade
from outbox_admin.producer import prepare_sqlite
from tests.support.ports import HOST
from tests.support.postgres import PostgresServer
from tests.support.waiting import LIMIT

TEMPLATE = "outbox_template"
_numbers = count(1)


def migrate(url: str) -> None:
    """Brings an empty database to the newest schema, as `outbox-admin db upgrade` does."""
    with disposable_engine(url) as engine:
        upgrade(engine)


class _Reached(Exception):
    pass


def upgrade_to(version: str, engine: sa.Engine) -> None:
    """Stops an upgrade after the migration ``version``, as an interruption would."""
    following = f"{int(version) + 1:04}"

    def tell(sentence: str) -> None:
        if f": {following} " in sentence:
            raise _Reached

    with suppress(_Reached):
        upgrade(engine, tell)


@contextmanager
def disposable_engine(url: str, **options: Any) -> Iterator[sa.Engine]:
    """Opened as the package opens its own, but for durability; every connection is closed at the end."""
    with _disposed(create(url, **options)) as engine:
        yield engine


def commits_itself(db: sa.Connection) -> bool:
    """Whether each statement of ``db`` is a transaction by itself."""
    return db.get_execution_options().get("isolation_level") == "AUTOCOMMIT"


def take_for(engine: sa.Engine, *, direct: bool) -> None:
    """New connections of ``engine`` count as such to the server itself, or as such to a pooler, whatever they are."""

    def meet(connection: Any, record: Any) -> None:
        record.info[DIRECT] = direct
        connection.prepare_threshold = PREPARED_FROM if direct else None

    if engine.dialect.name == "postgresql":
        sa.event.listen(engine, "connect", meet)


@contextmanager
def applications_engine(url: str) -> Iterator[sa.Engine]:
    """Opened as an application opens its own, prepared as the README says."""
    engine = sa.create_engine(url)
    if engine.dialect.name == "sqlite":
        prepare_sqlite(engine)
    with _disposed(engine):
        yield engine


@contextmanager
def _disposed(engine: sa.Engine) -> Iterator[sa.Engine]:
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _without_waiting_for_the_disk)
        sa.event.listen(engine, "begin", _wait_longer_for_writers)
    try:
        yield engine
    finally:
        engine.dispose()


def _without_waiting_for_the_disk(connection: sqlite3.Connection, record: object) -> None:
    """A commit takes thirty times as long where the disk is waited for; no test cuts the power."""
    connection.execute("PRAGMA synchronous = OFF")


def _wait_longer_for_writers(connection: sa.Connection) -> None:
    """Than is good for an application: on a slow machine a test waits for its turn. Set once a connection."""
    if not connection.info.get("patient"):
        connection.info["patient"] = True
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {LIMIT * 1000:.0f}")


def sqlite_url(file: Path) -> str:
    return f"sqlite:///{file}"


def copy_sqlite(template: Path, file: Path) -> str:
    shutil.copyfile(template, file)
    return sqlite_url(file)


@contextmanager
def fresh_postgres(server: PostgresServer, *, template: str = "template1") -> Iterator[str]:
    """A database of its own on the server; gives its URL and drops it afterwards."""
    name = copy_postgres(server, template)
    try:
        yield server.url(name)
    finally:
        drop_postgres(server, name)


def copy_postgres(server: PostgresServer, template: str) -> str:
    """Its name."""
    name = f"outbox_test_{next(_numbers)}"
    with _administration(server) as db:
        # Copying files takes a third of the time of writing the same through the log, as is usual from 15 on.
        strategy = "STRATEGY file_copy" if db.info.server_version >= 150_000 else ""
        db.execute(f"CREATE DATABASE {name} TEMPLATE {template} {strategy}".encode())
    return name


def drop_postgres(server: PostgresServer, name: str) -> None:
    administer(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def create_template(server: PostgresServer) -> str:
    administer(server, f"CREATE DATABASE {TEMPLATE}")
    migrate(server.url(TEMPLATE))
    return TEMPLATE


def administer(server: PostgresServer, statement: str) -> None:
    with _administration(server) as db:
        db.execute(statement.encode())


def _administration(server: PostgresServer) -> "psycopg.Connection[Any]":
    """The driver alone: an engine would ask a new connection for its type tables first."""
    return psycopg.connect(host=HOST, port=server.port, user="postgres", dbname="postgres", autocommit=True)
