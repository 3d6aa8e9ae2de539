"""The breaker of each route that all workers share: one row, changed under its lock by core/breaker's transitions.

Whoever changes it does so last in its transaction, after the outbox rows, so that nobody waits crosswise. The clock is
the database's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from outbox_admin.core import breaker as rules
from outbox_admin.core.breaker import Breaker, Gate
from outbox_admin.core.cause import Cause
from outbox_admin.core.health import LOST_AFTER
from outbox_admin.db.schema import outbox_route, outbox_worker
from outbox_admin.db.store import witnesses
from outbox_admin.db.store.breakers import loaded, second, stored
from outbox_admin.db.store.rows import Database, among, upsert

route = outbox_route.c

#: ``last_accepted_at`` is written again only once it is so old: it must not be waited for by every lane.
STALE = timedelta(seconds=1)


CLOSED = Breaker()


@dataclass(frozen=True, slots=True)
class Seen:
    """A route as the table has it. ``asked_at``: when an operator had it tried by workers that pause alone."""

    breaker: Breaker = CLOSED
    last_accepted_at: datetime | None = None
    is_stored: bool = False
    asked_at: datetime | None = None


def see(db: Database, names: Collection[str]) -> dict[str, Seen]:
    """A plain read; routes of which nothing is known yet are closed."""
    found = {one.name: one for one in db.execute(sa.select(outbox_route).where(among(route.name, names)))}
    return {name: _seen(found[name]) if name in found else Seen() for name in names}


def _seen(row: Any) -> Seen:
    breaker = loaded(row)
    asked_at = None if breaker.gate is Gate.OPEN else row.next_probe_at
    return Seen(breaker, row.last_accepted_at, is_stored=True, asked_at=asked_at)


def take_probe(db: Database, name: str, *, by: str, now: datetime, patience: float) -> tuple[Breaker, bool]:
    """Whether ``by`` is the one of all workers to probe now; it tells :func:`probed`."""
    before = _freed(db, _locked(db, name), by=by, now=now)
    if not rules.probe_due(before, now=second(now), patience=patience):
        return before, False
    if witnesses.defers(db, name, before, worker=worker_of(by), now=now):
        return before, False
    after = rules.probing(before, now=second(now), by=by, patience=patience)
    return _write(db, name, after), True


def probed(db: Database, name: str, *, by: str, fault: Cause | None, now: datetime, roll: float) -> Breaker:
    """What the probe found; ``fault`` None: the relay answered well. Who took too long is not heard any more."""
    before = _locked(db, name)
    if before.gate is not Gate.OPEN or before.probing_by != by:
        return before
    witnesses.note(db, name, worker=worker_of(by), now=now, good=fault is None)
    if fault is None:
        return _write(db, name, rules.closed(before))
    return _write(db, name, rules.probe_failed(before, fault, now=second(now), roll=roll))


def take_trials(
    db: Database, name: str, *, by: str, wanted: int, now: datetime, patience: float
) -> tuple[Breaker, int]:
    """Permits for at most ``wanted`` messages while half-open, of those that the whole fleet may have in hand."""
    before = _locked(db, name)
    free = _freed(db, before, by=by, now=now)
    after, number = rules.on_trial(free, by=by, wanted=wanted, now=second(now), patience=patience)
    return (_write(db, name, after) if after != before else before), number


def give_back(db: Database, name: str, *, by: str) -> None:
    """Permits and probe that ``by`` does not need any more."""
    before = _locked(db, name)
    after = rules.returned(before, {by})
    if after != before:
        _write(db, name, after)


def open_unless_alone(
    db: Database, name: str, *, worker: str, cause: Cause, now: datetime, roll: float
) -> tuple[Breaker, bool]:
    """After a fault. True: other workers get through, so it is this worker that is sick; nothing was opened (E23)."""
    before = _locked(db, name)
    witnesses.note(db, name, worker=worker, now=now, good=False)
    tried = before.gate is Gate.CLOSED or (before.gate is Gate.HALF_OPEN and before.acceptances > 0)
    if tried and witnesses.others_are_well(db, name, worker=worker, now=now):
        return before, True
    after = rules.opened(before, cause, now=second(now), roll=roll)
    return (_write(db, name, after) if after != before else before), False


def accepted(db: Database, name: str, *, number: int, now: datetime) -> Breaker | None:
    """After ``number`` acceptances. Writes only what is news; None when nothing was."""
    told = {"name_": name, "now_": now, "before": now - STALE, "beyond": now + STALE}
    found = db.execute(_acceptance(), told).first()
    if found is None:
        return None
    before = after = loaded(found)
    for _ in range(min(number, rules.FULL)):
        after = rules.accepted(after)
    return _write(db, name, after) if after != before else after


@lru_cache
def _acceptance() -> Any:
    """Built once: it goes along with every result."""
    change = sa.update(outbox_route).where(route.name == sa.bindparam("name_"), is_news())
    return change.values(last_accepted_at=_at("now_"), streak=sa.null()).returning(*route)


def is_news() -> sa.ColumnElement[bool]:
    """Whether the row wants to hear of an acceptance, between the times ``before`` and ``beyond``."""
    return sa.or_(
        route.last_accepted_at.is_(None),
        route.last_accepted_at < _at("before"),
        route.last_accepted_at > _at("beyond"),  # the clock was put back; who is a little ahead is no news
        route.breaker != Gate.CLOSED.value,
        route.openings > 0,
        route.streak.is_not(None),
    )


def _at(name: str) -> sa.BindParameter[datetime]:
    return sa.bindparam(name, type_=route.last_accepted_at.type)


def hasten(db: Database, name: str, *, now: datetime) -> bool:
    """The next probe is due now: an operator has cured the fault. False where nobody pauses.

    A route that is not open has no probe of its own: the moment then tells workers that pause alone (E23).
    """
    found = db.execute(sa.select(outbox_route).where(route.name == name).with_for_update()).first()
    if found is None:
        return False
    before = loaded(found)
    if before.gate is Gate.OPEN:
        _write(db, name, rules.hastened(before, now=second(now)))
        return True
    if not _somebody_pauses_alone(db, name, now=now):
        return False
    db.execute(sa.update(outbox_route).where(route.name == name).values(next_probe_at=now))
    return True


def _somebody_pauses_alone(db: Database, name: str, *, now: datetime) -> bool:
    worker = outbox_worker.c
    alive = (worker.beat_at > now - LOST_AFTER, worker.state != "stopped")
    return any(
        name in (pauses or ()) for pauses in db.execute(sa.select(worker.breakers).where(*alive)).scalars()
    )


def enter(db: Database, names: Collection[str]) -> None:
    """Rows for routes that have none yet: an UPDATE finds them from now on."""
    for name in sorted(names):
        db.execute(upsert(db, outbox_route).values(name=name).on_conflict_do_nothing())


def locked_row(db: Database, name: str) -> Any:
    """The row, ours until the transaction ends. SQLite has one writer anyway."""
    mine = sa.select(outbox_route).where(route.name == name).with_for_update()
    found = db.execute(mine).first()
    if found is None:
        enter(db, {name})
        found = db.execute(mine).one()
    return found


def _locked(db: Database, name: str) -> Breaker:
    return loaded(locked_row(db, name))


def _freed(db: Database, breaker: Breaker, *, by: str, now: datetime) -> Breaker:
    """Without what workers hold that were lost or have stopped: nobody waits for the dead.

    Nor for what ``by`` held itself: it would not ask if that had not ended, and the database may have missed it.
    """
    breaker = rules.returned(breaker, {by})
    holders = {trial.by for trial in breaker.trials} | ({breaker.probing_by} if breaker.probing_by else set())
    if not holders:
        return breaker
    owners, worker = {worker_of(by) for by in holders}, outbox_worker.c
    gone = sa.or_(worker.beat_at < now - LOST_AFTER, worker.state == "stopped")
    lost = set(db.execute(sa.select(worker.id).where(among(worker.id, owners), gone)).scalars())
    return rules.returned(breaker, {by for by in holders if worker_of(by) in lost}) if lost else breaker


def worker_of(by: str) -> str:
    """A lane signs with its worker's name and its own number behind a slash."""
    return by.partition("/")[0]


def _write(db: Database, name: str, after: Breaker) -> Breaker:
    db.execute(sa.update(outbox_route).where(route.name == name).values(stored(after)))
    return after
