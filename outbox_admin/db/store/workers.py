"""Heartbeats: what each worker says of itself every ten seconds. Nothing here judges whether that is well."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from outbox_admin.core.health import FORGOTTEN_AFTER, LOST_AFTER
from outbox_admin.db.schema import outbox_worker
from outbox_admin.db.store import witnesses
from outbox_admin.db.store.rows import Database, upsert

STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The columns of ``outbox_worker``. ``state``: active, draining or stopped; counters since the start.

    ``routes``: those whose breakers it shares. ``breakers``: where it pauses alone, by route ``{"since":, "until":,
    "phase":, "kind":, "code":}``, times in ISO format with offset.
    """

    id: str
    host: str
    pid: int
    kind: str
    version: str
    lanes: int
    started_at: datetime
    key_ids: Collection[str]
    state: str = "active"
    last_cycle_at: datetime | None = None
    last_progress_at: datetime | None = None
    holding: int = 0
    accepted: int = 0
    rejected: int = 0
    deferred: int = 0
    faults: int = 0
    errors: int = 0
    breakers: Mapping[str, Any] | None = None
    routes: Collection[str] = ()
    simulating: bool = False
    seals_until: datetime | None = None
    redirect_to: str | None = None
    revoked_ids: Collection[str] = ()


def beat(db: Database, heartbeat: Heartbeat, *, now: datetime) -> None:
    """Writes the worker's row, the first time and every time."""
    lists = {name: sorted(getattr(heartbeat, name)) for name in ("key_ids", "revoked_ids", "routes")}
    values = asdict(heartbeat) | lists | {"beat_at": now}
    insert = upsert(db, outbox_worker).values(values)
    renewed = {name: insert.excluded[name] for name in values if name != "id"}
    db.execute(insert.on_conflict_do_update(index_elements=[outbox_worker.c.id], set_=renewed))


def live_keys(db: Database, *, now: datetime) -> set[str]:
    """Ids of the keys that workers with a recent heartbeat hold."""
    beating = (outbox_worker.c.beat_at >= now - LOST_AFTER, outbox_worker.c.state != STOPPED)
    rings = db.execute(sa.select(outbox_worker.c.key_ids).where(*beating)).scalars()
    return {kid for ring in rings for kid in ring}


def forget_lost(db: Database, *, now: datetime, after: timedelta = FORGOTTEN_AFTER) -> int:
    """Removes workers that have been silent for ``after``; their number."""
    silent = sa.delete(outbox_worker).where(outbox_worker.c.beat_at < now - after)
    gone = list(db.execute(silent.returning(outbox_worker.c.id)).scalars())
    if gone:
        witnesses.forget(db, gone)
    return len(gone)
