"""What the workers say of themselves: who is alive, who stands still, who sends nothing, and whom mail goes to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from outbox_admin.core.health import FORGOTTEN_AFTER, LOST_AFTER, STUCK_AFTER, Crew
from outbox_admin.db.reads.deployment import COPIED_STATE, PAUSED_STATE
from outbox_admin.db.reads.rows import Database
from outbox_admin.db.schema import outbox_worker

_IDLE = (COPIED_STATE, PAUSED_STATE)


@dataclass(frozen=True, slots=True)
class Notices:
    """What every page must say of the workers that are alive. ``redirected_to``: in place of all recipients.

    ``copied`` and ``paused`` count workers that send nothing, because their database is a copy or by their start.
    """

    alive: int
    simulating: bool
    redirected_to: tuple[str, ...]
    copied: int
    paused: int


def heartbeats(db: Database, *, now: datetime) -> Sequence[sa.Row[Any]]:
    """Every worker that reported within a day and did not say good-bye, the newest beat first."""
    worker = outbox_worker.c
    query = (
        sa.select(outbox_worker)
        .where(worker.state != "stopped", worker.beat_at > now - FORGOTTEN_AFTER)
        .order_by(worker.beat_at.desc())
    )
    return db.execute(query).all()


def is_alive(worker: sa.Row[Any], *, now: datetime) -> bool:
    return bool(worker.beat_at > now - LOST_AFTER)


def is_stuck(worker: sa.Row[Any], *, now: datetime) -> bool:
    progress = worker.last_progress_at or worker.started_at
    return bool(worker.holding > 0 and progress < now - STUCK_AFTER)


def crew_of(workers: Sequence[sa.Row[Any]], *, now: datetime) -> Crew:
    alive = [worker for worker in workers if is_alive(worker, now=now)]
    states = [worker.state for worker in alive]
    return Crew(
        active=states.count("active"),
        draining=sum(state not in ("active", *_IDLE) for state in states),
        copied=states.count(COPIED_STATE),
        paused=states.count(PAUSED_STATE),
        lost=len(workers) - len(alive),
        stuck=sum(is_stuck(worker, now=now) for worker in alive),
        last_beat_at=workers[0].beat_at if workers else None,
    )


def seals_until(workers: Sequence[sa.Row[Any]], *, now: datetime) -> datetime | None:
    """When the first of the live workers' key rings has no key left that seals."""
    told = (worker.seals_until for worker in workers if is_alive(worker, now=now))
    return min((until for until in told if until is not None), default=None)


def revoked(workers: Sequence[sa.Row[Any]], *, now: datetime) -> frozenset[str]:
    """Keys that some live worker's ring has and calls revoked."""
    rings = (worker.revoked_ids or () for worker in workers if is_alive(worker, now=now))
    return frozenset(kid for ring in rings for kid in ring)


def redirected_to(workers: Iterable[Any]) -> tuple[str, ...]:
    return tuple(sorted({worker.redirect_to for worker in workers if worker.redirect_to}))


def notices(db: Database, *, now: datetime) -> Notices:
    """One small query, for every page."""
    worker = outbox_worker.c
    query = sa.select(worker.state, worker.simulating, worker.redirect_to)
    alive = db.execute(query.where(worker.beat_at > now - LOST_AFTER, worker.state != "stopped")).all()
    states = [one.state for one in alive]
    return Notices(
        alive=len(alive),
        simulating=any(one.simulating for one in alive),
        redirected_to=redirected_to(alive),
        copied=states.count(COPIED_STATE),
        paused=states.count(PAUSED_STATE),
    )
