"""The figures behind overview, ``status`` and metrics: bounded queries on partial indexes, whatever the table's size.

Never selects payload or detail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from outbox_admin.core.findings import findings, worst
from outbox_admin.core.health import Count, Crew, Figures, Finding, Level, MissingKey
from outbox_admin.core.lifecycle import LIVE, PRIORITIES, State
from outbox_admin.db.reads import crew as crews
from outbox_admin.db.reads import deployment, holds
from outbox_admin.db.reads.counts import CAP, capped, count_states, expired_since
from outbox_admin.db.reads.routes import pauses
from outbox_admin.db.reads.rows import Database, state_in
from outbox_admin.db.schema import email_outbox as outbox
from outbox_admin.db.schema import outbox_key

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
    workers = crews.heartbeats(db, now=now)
    alive = [worker for worker in workers if crews.is_alive(worker, now=now)]
    crew = crews.crew_of(workers, now=now)
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
        expired_last_hour=expired_since(db, now - timedelta(hours=1)),
        crew=crew,
        held=_held(db),
        missing_keys=tuple(_missing_keys(db, crews.revoked(workers, now=now), grace=grace)),
        pauses=pauses(db, now=now),
        holds=tuple(holds.in_force(db, now=now)),
        copied_since=_copied_since(db, crew, now=now),
        simulating=any(worker.simulating for worker in alive),
        redirected_to=crews.redirected_to(alive),
        seals_until=crews.seals_until(workers, now=now),
    )


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
    """Of the oldest :data:`CAP` open rows. Where all of those are held, of as many that are due next."""
    first, held = outbox.c.first_due_at, outbox.c.held
    oldest = sa.select(first, held).where(state_in(LIVE), first <= now).order_by(first).limit(CAP).subquery()
    free = sa.or_(oldest.c.held.is_(None), oldest.c.held == "alone")
    query = sa.select(oldest.c.first_due_at).where(free).order_by(oldest.c.first_due_at).limit(1)
    found: datetime | None = db.execute(query).scalar()
    return found or _first_of_due(db, now=now)


def _first_of_due(db: Database, *, now: datetime) -> datetime | None:
    due = (
        sa.select(outbox.c.first_due_at)
        .where(state_in((State.PENDING,)), outbox.c.held.is_(None))
        .order_by(outbox.c.priority, outbox.c.due_at)
        .limit(CAP)
        .subquery()
    )
    first = sa.select(sa.func.min(due.c.first_due_at)).where(due.c.first_due_at <= now)
    found: datetime | None = db.execute(first).scalar()
    return found


def _age(since: datetime | None, now: datetime) -> float | None:
    return None if since is None else max(0.0, (now - since).total_seconds())


def _held(db: Database) -> dict[str, Count]:
    """By the word before the colon. Rows of a missing key are counted by key, rows held ``alone`` are due.

    A range, since SQLite scans the table for one word where its statistics know only another.
    """
    held = outbox.c.held
    stamped = sa.and_(state_in((State.PENDING,)), held.is_not(None))
    return {
        "hold": capped(db, stamped, held.like("hold:%")),
        "format": capped(db, stamped, held.between("format", "format")),
        "unreadable": capped(db, stamped, held.between("unreadable", "unreadable")),
    }


def _copied_since(db: Database, crew: Crew, *, now: datetime) -> datetime | None:
    """What live workers say counts; without any, what the last ones have written down."""
    if crew.copied == 0 and crew.alive:
        return None
    seen = deployment.copy_seen_at(db)
    return seen or (now if crew.copied else None)


def _missing_keys(db: Database, revoked: frozenset[str], *, grace: timedelta) -> Iterator[MissingKey]:
    missing = sa.select(outbox_key.c.kid, outbox_key.c.missing_since).where(
        outbox_key.c.missing_since.is_not(None), outbox_key.c.state != "lost"
    )
    for kid, since in db.execute(missing).all():
        waiting = capped(db, state_in((State.PENDING,)), outbox.c.key_id == kid)
        if waiting.value:
            yield MissingKey(kid, waiting, since, grace, kid in revoked)
