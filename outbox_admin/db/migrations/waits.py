"""How long a migration may wait for a lock, and the sentence for whoever runs it when that was not enough.

On PostgreSQL everybody who comes after a waiting ALTER TABLE waits behind it. So it gives up soon; it can be tried
again at any time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from outbox_admin.db.schema import metadata
from outbox_admin.db.store.sqlite import in_autocommit
from outbox_admin.errors import UpgradeBlocked

#: Producers wait as long at worst, behind the migration that waits.
LOCK_SECONDS = 3
LIMIT = f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"

LOCKED, DEADLOCK, CANCELLED = "55P03", "40P01", "57014"
AGAIN = "run `outbox-admin db upgrade` again"


def bound(db: sa.Connection) -> None:
    """Each transaction of this connection gives up after ``LOCK_SECONDS``; SQLite has its own limit."""
    if db.dialect.name == "postgresql":
        sa.event.listen(db, "begin", _limit)


def _limit(db: sa.Connection) -> None:
    if not in_autocommit(db):
        db.exec_driver_sql(LIMIT)


@contextmanager
def explained(migration: str, beside: sa.Connection | None) -> Iterator[None]:
    """Turns a wait that was given up into :class:`UpgradeBlocked`; ``beside`` can still ask who was in the way."""
    try:
        yield
    except sa.exc.OperationalError as fault:
        why = _reason(fault, beside)
        if why is None:
            raise
        raise UpgradeBlocked(
            f"Migration {migration} {why}. It is not recorded, and leaves nothing that the next run does not put "
            "right; the migrations before it stay applied."
        ) from None


def _reason(fault: sa.exc.OperationalError, beside: sa.Connection | None) -> str | None:
    """None for what is no wait."""
    if getattr(fault.orig, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
        return f"found the file in use by another process; {AGAIN} when that has ended its transaction"
    state = getattr(fault.orig, "sqlstate", None)
    if state == CANCELLED:
        return (
            "was cancelled, by somebody or by statement_timeout; "
            f"{AGAIN}, with PGOPTIONS='-c statement_timeout=0' on a direct connection"
        )
    if state == DEADLOCK:
        return f"met another session that waited for it, too; {AGAIN}"
    if state == LOCKED and beside is not None:
        return _locked(_tables(fault.statement), beside)
    return None


def _tables(statement: str | None) -> list[str]:
    words = set(re.findall(r"\w+", statement or ""))
    return sorted(words & metadata.tables.keys())


def _locked(tables: list[str], beside: sa.Connection) -> str:
    what = "waited too long for a lock" + (f" on {' and '.join(tables)}" if tables else "")
    holders = list(beside.execute(_HOLDERS, {"tables": tables, "seconds": LOCK_SECONDS}))
    if not holders:
        return f"{what}, so as not to keep producers waiting behind it; {AGAIN}"
    named = ", ".join(map(_named, holders))
    return (
        f"{what} held by {named}, and gave up so as not to keep producers waiting behind it; {AGAIN} when that has "
        f"ended, or end it by SELECT pg_terminate_backend({holders[0].pid})"
    )


def _named(holder: sa.Row[tuple[int, str | None, str | None, str | None, int | None]]) -> str:
    known = [holder.application_name, holder.usename and f"user {holder.usename}", holder.state]
    if holder.seconds is not None:
        known.append(f"since {holder.seconds} s")
    return f"session {holder.pid} ({', '.join(one for one in known if one)})"


#: The oldest three; whoever was in the way has been at it longer than the migration waited. What another user's session
#: does is hidden from all but members of pg_read_all_stats.
_HOLDERS = sa.text(
    """
    SELECT a.pid, a.application_name, a.usename, a.state,
           floor(extract(epoch FROM clock_timestamp() - a.xact_start))::integer AS seconds
      FROM pg_stat_activity AS a
     WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
       AND (a.xact_start IS NULL OR a.xact_start < clock_timestamp() - make_interval(secs => :seconds))
       AND EXISTS (
           SELECT 1 FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
            WHERE l.pid = a.pid AND l.database = a.datid AND l.granted AND c.relname = ANY(:tables))
     ORDER BY a.xact_start NULLS LAST LIMIT 3
    """
)
