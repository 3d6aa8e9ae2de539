"""What most commands begin with: the settings, the database, the time, and who is typing."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click
import sqlalchemy as sa

from outbox_admin import assemble
from outbox_admin.config import Role, Settings
from outbox_admin.db import version
from outbox_admin.db.engine import rewritten
from outbox_admin.db.reads import clock
from outbox_admin.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Desk:
    """One open transaction, committed at the end unless something is raised; ``now`` is the database's time."""

    settings: Settings
    db: sa.Connection
    now: datetime


@contextmanager
def desk(*roles: Role) -> Iterator[Desk]:
    """Raises ConfigurationError where settings are missing or the tables are not those of this version."""
    settings = read_settings(*roles)
    with open_engine(settings).begin() as db:
        yield Desk(settings, db, clock.now(db))


@contextmanager
def reading(*roles: Role) -> Iterator[Desk]:
    """As :func:`desk` for commands that change nothing: on SQLite they do not wait for whoever writes."""
    settings = read_settings(*roles)
    with open_engine(settings).connect().execution_options(sqlite_begin="DEFERRED") as db:
        yield Desk(settings, db, clock.now(db))


def read_settings(*roles: Role) -> Settings:
    settings = Settings.from_env()
    settings.require(*roles)
    return settings


def open_engine(settings: Settings) -> sa.Engine:
    """The configured database, which must have the tables of this version."""
    engine = existing(settings)
    try:
        standing = version.check(engine)
    except BaseException:
        engine.dispose()
        raise
    if not standing.ok:
        raise ConfigurationError(
            f"The database {place(engine.url)} has no tables of this version; {standing.cure}."
        )
    return engine


def existing(settings: Settings) -> sa.Engine:
    """The configured database; no SQLite file is made where one is only looked for, in the wrong folder perhaps."""
    address = rewritten(str(settings.database_url))
    file = address.database or ":memory:"
    is_file = address.get_backend_name() == "sqlite" and not file.startswith((":memory:", "file:"))
    if is_file and not Path(file).exists():
        raise ConfigurationError(
            f"There is no database {place(address)}; go to the folder that has it, "
            "or make it with `outbox-admin init` or `outbox-admin db upgrade`."
        )
    return engine_of_command(settings)


def engine_of_command(settings: Settings) -> sa.Engine:
    """Closed with the command, however that ends; in another thread than the command's by whoever asked for it."""
    engine = assemble.engine(settings)
    command = click.get_current_context(silent=True)
    if command is not None:
        command.call_on_close(engine.dispose)
    return engine


def place(address: sa.URL) -> str:
    """Where a database is, without user and password."""
    if address.get_backend_name() == "sqlite":
        return str(Path(address.database or "").absolute())
    return f"{address.database} at {address.host or 'this machine'}"


def actor() -> str:
    """For the audit log: who is logged in on this machine; nobody can set it by an environment variable."""
    uid = os.getuid()
    try:
        return f"cli:{pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"cli:{uid}"
