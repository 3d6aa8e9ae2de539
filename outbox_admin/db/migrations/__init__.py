"""Bringing a database to the schema of this release, by Alembic, inside the package.

Its version table is ``outbox_alembic_version``, beside whatever Alembic the application uses for its own tables.
Each migration has a transaction of its own and is recorded in it, so that an upgrade that was interrupted goes on where
it stopped. Several processes may upgrade at once: one does it, the others wait and find nothing to do.
"""

from __future__ import annotations

import io
from pathlib import Path
from threading import Lock
from typing import Any

import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import Script, ScriptDirectory

from outbox_admin.db.migrations import waits
from outbox_admin.db.migrations.lock import Tell, alone, require_alone
from outbox_admin.db.schema import metadata
from outbox_admin.db.store.sqlite import prepare_sqlite
from outbox_admin.db.version import REVISIONS, VERSION_TABLE, Check, check
from outbox_admin.errors import ConfigurationError

__all__ = ["DIALECTS", "REVISIONS", "VERSION_TABLE", "Check", "check", "sql", "upgrade"]

#: Alembic keeps the migration at work in globals: one thread at a time.
_ALEMBIC = Lock()
DIALECTS = ("postgresql", "sqlite")


def upgrade(engine: sa.Engine, tell: Tell = lambda _: None) -> Check:
    """Applies what is missing; gives what is there afterwards. Prepares a SQLite engine.

    ``tell`` is called with a sentence before each migration, and where another upgrade has to be waited for.
    Raises :class:`ConfigurationError` where the database is of a newer release, :class:`UpgradeBlocked` where a
    migration would have to wait too long for others.
    """
    prepare_sqlite(engine)
    with alone(engine, tell) as guard, engine.connect() as db:
        waits.bound(db)
        missing = _missing(_known(check(engine).current))
        for number, script in enumerate(missing, start=1):
            tell(f"{number} of {len(missing)}: {script.revision} {script.doc}")
            require_alone(guard)
            with waits.explained(script.revision, guard):
                _apply(db, script.revision)
    return check(engine)


def sql(dialect: str = "postgresql", since: str | None = None) -> str:
    """The statements of the upgrade from version ``since``, or of all, for people who run DDL by hand."""
    if dialect not in DIALECTS:
        raise ConfigurationError(f"there is no SQL for {dialect}; say {' or '.join(DIALECTS)}")
    if since is not None and since not in REVISIONS:
        raise ConfigurationError(f"there is no version {since}; `outbox-admin db check` tells which you have")
    written = io.StringIO()
    scripts = _scripts()
    steps = lambda revision, _context: scripts._upgrade_revs("head", revision)  # noqa: E731
    options: dict[str, Any] = {"as_sql": True, "starting_rev": since, "destination_rev": "head"}
    with _ALEMBIC, EnvironmentContext(Config(), scripts, fn=steps, **options) as context:
        context.configure(dialect_name=dialect, output_buffer=written, literal_binds=True, **_OPTIONS)
        context.run_migrations()
    text = written.getvalue()
    return text.replace("BEGIN;", f"BEGIN;\n\n{waits.LIMIT};") if dialect == "postgresql" else text


#: Alembic takes SQLite's DDL for not transactional, as it is with a driver that begins too late; ours does not.
_OPTIONS: dict[str, Any] = {
    "target_metadata": metadata,
    "version_table": VERSION_TABLE,
    "transaction_per_migration": True,
    "transactional_ddl": True,
}


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(Path(__file__).parent))


def _missing(current: str) -> list[Script]:
    return list(reversed(list(_scripts().iterate_revisions("head", current))))


def _known(current: str | None) -> str:
    if current is None:
        return "base"
    if current not in REVISIONS:
        raise ConfigurationError(
            f"the database has schema {current}, which this release does not know; install the newer one"
        )
    return current


def _apply(db: sa.Connection, revision: str) -> None:
    """Nothing where another upgrade of a SQLite file was quicker: what is there is read in the same transaction."""
    scripts = _scripts()

    def step(current: Any, _context: Any) -> Any:
        following = scripts._upgrade_revs("head", current)[:1]
        return [one for one in following if one.revision.revision == revision]

    with _ALEMBIC, EnvironmentContext(Config(), scripts, fn=step, destination_rev=revision) as context:
        context.configure(connection=db, **_OPTIONS)
        context.run_migrations()
    db.rollback()
