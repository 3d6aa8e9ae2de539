"""Bringing a database to the schema of this release, by Alembic, inside the package.

Its version table is ``outbox_alembic_version``, beside whatever Alembic the application uses for its own tables.
Several processes may upgrade at once: the first does it, the others find nothing to do.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory

from outbox_admin.db.schema import metadata
from outbox_admin.db.store.sqlite import prepare_sqlite
from outbox_admin.errors import ConfigurationError

VERSION_TABLE = "outbox_alembic_version"
DIALECTS = ("postgresql", "sqlite")
#: Names the lock of an upgrade among the advisory locks of the database: "outbox" in ASCII.
LOCK = 0x6F7574626F78

#: Called with (done, total, name) before the first migration and after each.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Check:
    """``current`` is None where the tables do not exist yet; ``is_newer``: a later release made them."""

    current: str | None
    expected: str
    is_newer: bool = False

    @property
    def ok(self) -> bool:
        return self.current == self.expected

    @property
    def cure(self) -> str:
        """What to do where the two differ."""
        if self.is_newer:
            return "install the newer release, which made them"
        return "run `outbox-admin db upgrade` (a backup first)"


def upgrade(engine: sa.Engine, progress: Progress | None = None) -> Check:
    """Applies what is missing, in one transaction; gives what is there afterwards. Prepares a SQLite engine.

    Raises :class:`ConfigurationError` where the database is of a newer release.
    """
    prepare_sqlite(engine)
    with engine.begin() as connection:
        _lock(connection)
        current = _known(_current(connection))
        missing = list(reversed([one.doc for one in _scripts().iterate_revisions("head", current)]))
        _run(connection, missing, progress)
    return check(engine)


def check(engine: sa.Engine) -> Check:
    """Compares the database with this release; changes nothing."""
    with engine.connect() as connection:
        current = _current(connection)
    is_newer = current is not None and current not in _revisions()
    return Check(current, str(_scripts().get_current_head()), is_newer)


def sql(dialect: str = "postgresql") -> str:
    """The statements of the whole upgrade, for people who run DDL by hand."""
    if dialect not in DIALECTS:
        raise ConfigurationError(f"there is no SQL for {dialect}; say {' or '.join(DIALECTS)}")
    written = io.StringIO()
    scripts = _scripts()
    with EnvironmentContext(
        Config(), scripts, fn=_steps(scripts), as_sql=True, destination_rev="head"
    ) as context:
        context.configure(dialect_name=dialect, output_buffer=written, literal_binds=True, **_OPTIONS)
        with context.begin_transaction():
            context.run_migrations()
    return written.getvalue()


_OPTIONS: dict[str, Any] = {"target_metadata": metadata, "version_table": VERSION_TABLE}


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(Path(__file__).parent))


def _steps(scripts: ScriptDirectory) -> Callable[[Any, Any], Any]:
    return lambda revision, _context: scripts._upgrade_revs("head", revision)


def _current(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection, opts=dict(_OPTIONS)).get_current_revision()


def _revisions() -> set[str]:
    return {one.revision for one in _scripts().walk_revisions()}


def _known(current: str | None) -> str:
    if current is None:
        return "base"
    if current not in _revisions():
        raise ConfigurationError(
            f"the database has schema {current}, which this release does not know; install the newer one"
        )
    return current


def _lock(connection: sa.Connection) -> None:
    """Until the end of the transaction: safe behind a pooler. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))


def _run(connection: sa.Connection, names: list[str], progress: Progress | None) -> None:
    done = 0

    def applied(*_: Any, **__: Any) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, len(names), names[done - 1])

    if progress is not None:
        progress(0, len(names), "")
    scripts = _scripts()
    with EnvironmentContext(Config(), scripts, fn=_steps(scripts), destination_rev="head") as context:
        context.configure(connection=connection, on_version_apply=applied, **_OPTIONS)
        with context.begin_transaction():
            context.run_migrations()
