"""The figures behind overview, ``status`` and metrics: bounded queries on partial indexes, whatever the table's size.

Never selects payload or detail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from outbox_admin.core.catalogue import restore
from outbox_admin.core.findings import findings, worst
from outbox_admin.core.health import (
    FORGOTTEN_AFTER,
    LOST_AFTER,
    STUCK_AFTER,
    Count,
    Crew,
    Figures,
    Finding,
    Level,
    MissingKey,
    Pause,
)
from outbox_admin.core.lifecycle import DEAD, LIVE, PRIORITIES, State
from outbox_admin.db.reads.rows import Database, state_in
from outbox_admin.db.schema import email_outbox as outbox
from outbox_admin.db.schema import outbox_key, outbox_route, outbox_worker

#: Counting stops here; the page then says "10,000+".
CAP = 10_000
GRACE = timedelta(hours=72)


@dataclass(frozen=True, slots=True)
class Health:
    """``counts`` has every state; ``findings`` are sorted, worst first; ``level`` is the worst of them."""

    figures: Figures
    counts: Mapping[State, Count]
    findings: tuple[Finding, ...]
    level: Level

    @property
    def oldest_pending(self) -> float | None:
        """Seconds since the oldest open row first became due; held rows are not in it."""
        return self.figures.oldest_pending

    @property
    def oldest_due(self) -> float | None:
        """Seconds since the earliest passed ``due_at``."""
        return self.figures.oldest_due


def health(db: Database, *, now: datetime, grace: timedelta = GRACE) -> Health:
    """``grace``: how long rows of an unknown key wait before they are rejected."""
    counts = count_states(db)
    figures = read_figures(db, now=now, grace=grace, counts=counts)
    found = findings(figures)
    return Health(figures, counts, found, worst(found))


def read_figures(db: Database, *, now: datetime, grace: timedelta, counts: Mapping[State, Count]) -> Figures:
    workers = heartbeats(db, now=now)
    return Figures(
        now=now,
        oldest_due=_age(_earliest_due(db, now=now), now),
        oldest_pending=_age(_first_open(db, now=now), now),
        failed=counts[State.FAILED],
        uncertain=counts[State.UNCERTAIN],
        rejected_last_hour=capped(
            db,
            state_in((State.REJECTED,)),
            outbox.c.finished_at >= now - timedelta(hours=1),
        ),
        crew=_crew(workers, now=now),
        held=_held(db),
        missing_keys=tuple(_missing_keys(db, workers, grace=grace)),
        pauses=(*_shared_pauses(db), *_own_pauses(workers, now=now)),
        seals_until=_seals_until(workers, now=now),
        simulating=any(is_alive(worker, now=now) and worker.simulating for worker in workers),
    )


def capped(db: Database, *where: sa.ColumnElement[bool]) -> Count:
    """How many rows, counting to :data:`CAP` at most."""
    some = sa.select(sa.literal(1)).select_from(outbox).where(*where).limit(CAP + 1).subquery()
    found = db.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()
    return Count(min(found, CAP), found > CAP)


def count_states(db: Database) -> dict[State, Count]:
    """Open and dead states by their partial index; the others among the last that finished."""
    counts = {state: Count(0) for state in State}
    for state in (*LIVE, *DEAD):
        counts[state] = capped(db, state_in((state,)))
    latest = (
        sa.select(outbox.c.state)
        .where(outbox.c.finished_at.is_not(None))
        .order_by(outbox.c.finished_at.desc())
        .limit(CAP + 1)
        .subquery()
    )
    rows = db.execute(sa.select(latest.c.state, sa.func.count()).group_by(latest.c.state)).all()
    full = sum(number for _, number in rows) > CAP
    for name, number in rows:
        if name in counts and name not in DEAD:
            counts[State(name)] = Count(min(number, CAP), full)
    return counts


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


def _crew(workers: Sequence[sa.Row[Any]], *, now: datetime) -> Crew:
    alive = [worker for worker in workers if is_alive(worker, now=now)]
    return Crew(
        active=sum(worker.state == "active" for worker in alive),
        draining=sum(worker.state != "active" for worker in alive),
        lost=len(workers) - len(alive),
        stuck=sum(is_stuck(worker, now=now) for worker in alive),
        last_beat_at=workers[0].beat_at if workers else None,
    )


def _seals_until(workers: Sequence[sa.Row[Any]], *, now: datetime) -> datetime | None:
    told = (worker.seals_until for worker in workers if is_alive(worker, now=now))
    return min((until for until in told if until is not None), default=None)


def _earliest_due(db: Database, *, now: datetime) -> datetime | None:
    """One look into the index per priority; a minimum over all of them would walk the whole index."""
    found = [
        db.execute(
            sa.select(sa.func.min(outbox.c.due_at)).where(
                state_in((State.PENDING,)),
                outbox.c.held.is_(None),
                outbox.c.priority == priority,
                outbox.c.due_at <= now,
            )
        ).scalar()
        for priority in PRIORITIES
    ]
    return min((due for due in found if due is not None), default=None)


def _first_open(db: Database, *, now: datetime) -> datetime | None:
    query = (
        sa.select(outbox.c.first_due_at)
        .where(
            state_in(LIVE),
            sa.or_(outbox.c.held.is_(None), outbox.c.held == "alone"),
            outbox.c.first_due_at <= now,
        )
        .order_by(outbox.c.first_due_at)
        .limit(1)
    )
    found: datetime | None = db.execute(query).scalar()
    return found


def _age(since: datetime | None, now: datetime) -> float | None:
    return None if since is None else max(0.0, (now - since).total_seconds())


def _held(db: Database) -> dict[str, Count]:
    """By the word before the colon. Rows of a missing key are counted by key, rows held ``alone`` are due."""
    pending = state_in((State.PENDING,))
    return {
        "hold": capped(db, pending, outbox.c.held.like("hold:%")),
        "format": capped(db, pending, outbox.c.held == "format"),
        "unreadable": capped(db, pending, outbox.c.held == "unreadable"),
    }


def _missing_keys(db: Database, workers: Sequence[sa.Row[Any]], *, grace: timedelta) -> Iterator[MissingKey]:
    missing = sa.select(outbox_key.c.kid, outbox_key.c.missing_since).where(
        outbox_key.c.missing_since.is_not(None), outbox_key.c.state != "lost"
    )
    for kid, since in db.execute(missing).all():
        waiting = capped(db, state_in((State.PENDING,)), outbox.c.key_id == kid)
        if waiting.value:
            yield MissingKey(kid, waiting, since, grace)


def _shared_pauses(db: Database) -> Iterator[Pause]:
    route = outbox_route.c
    for row in db.execute(sa.select(outbox_route).where(route.breaker != "closed")).all():
        cause = restore(row.cause_phase, row.cause_kind, row.cause_code, row.cause_enhanced)
        yield Pause(row.name, None, cause, row.opened_at, row.next_probe_at)


def _own_pauses(workers: Sequence[sa.Row[Any]], *, now: datetime) -> Iterator[Pause]:
    for worker in workers:
        if not is_alive(worker, now=now):
            continue
        for route, told in (worker.breakers or {}).items():
            cause = restore(*(told.get(part) for part in ("phase", "kind", "code", "enhanced")))
            yield Pause(
                route,
                f"{worker.host}:{worker.pid}",
                cause,
                _time(told.get("since")),
                _time(told.get("until")),
            )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
