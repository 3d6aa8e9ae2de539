"""Which schema a database has, and which this release wants. Without Alembic, whose parts take 12 MiB of a worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from outbox_admin.db.store.sqlite import BEGIN_OPTION

VERSION_TABLE = "outbox_alembic_version"
_MIGRATIONS = Path(__file__).parent / "migrations" / "versions"
#: In their order, by the names of their files: v0001_outbox.py.
REVISIONS = tuple(sorted(file.name[1:5] for file in _MIGRATIONS.glob("v????_*.py")))


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


def check(engine: sa.Engine) -> Check:
    """Compares the database with this release; changes nothing, and waits for no writer."""
    with engine.connect().execution_options(**{BEGIN_OPTION: "DEFERRED"}) as connection:
        current = _current(connection)
    is_newer = current is not None and current not in REVISIONS
    return Check(current, REVISIONS[-1], is_newer)


def _current(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    version = sa.select(sa.column("version_num", sa.Text)).select_from(sa.table(VERSION_TABLE))
    return connection.execute(version).scalar_one_or_none()
