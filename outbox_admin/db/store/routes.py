"""The breaker of each route that all workers share: one row, changed under its lock by core/breaker's transitions.

Whoever changes it does so last in its transaction, after the outbox rows, so that nobody waits crosswise. The clock is
the database's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from outbox_admin.core import breaker as rules
from outbox_admin.core.breaker import Breaker, Gate, Trial
from outbox_admin.core.catalogue import restore
from outbox_admin.core.cause import Cause
from outbox_admin.core.health import LOST_AFTER
from outbox_admin.db.schema import outbox_route, outbox_worker
from outbox_admin.db.store import witnesses
from outbox_admin.db.store.rows import Database, among, of_cause, upsert

route = outbox_route.c

#: ``last_accepted_at`` is written again only once it is so old: it must not be waited for by every lane.
STALE = timedelta(seconds=1)


CLOSED = Breaker()


@dataclass(frozen=True, slots=True)
class Seen:
    """A route as the table has it."""

    breaker: Breaker = CLOSED
    last_accepted_at: datetime | None = None
    is_stored: bool = False


def see(db: Database, names: Collection[str]) -> dict[str, Seen]:
    """A plain read; routes of which nothing is known yet are closed."""
    found = {one.name: one for one in db.execute(sa.select(outbox_route).where(among(route.name, names)))}
    return {
        name: Seen(_loaded(found[name]), found[name].last_accepted_at, True) if name in found else Seen()
        for name in names
    }


def take_probe(db: Database, name: str, *, by: str, now: datetime, patience: float) -> tuple[Breaker, bool]:
    """Whether ``by`` is the one of all workers to probe now; it tells :func:`probed`."""
    before = _freed(db, _locked(db, name), by=by, now=now)
    if not rules.probe_due(before, now=_second(now), patience=patience):
        return before, False
    if witnesses.defers(db, name, before, worker=worker_of(by), now=now):
        return before, False
    after = rules.probing(before, now=_second(now), by=by, patience=patience)
    return _write(db, name, after), True


def probed(db: Database, name: str, *, by: str, fault: Cause | None, now: datetime, roll: float) -> Breaker:
    """What the probe found; ``fault`` None: the relay answered well. Who took too long is not heard any more."""
    before = _locked(db, name)
    if before.gate is not Gate.OPEN or before.probing_by != by:
        return before
    witnesses.note(db, name, worker=worker_of(by), now=now, good=fault is None)
    if fault is None:
        return _write(db, name, rules.closed(before))
    return _write(db, name, rules.probe_failed(before, fault, now=_second(now), roll=roll))


def take_trials(
    db: Database, name: str, *, by: str, wanted: int, now: datetime, patience: float
) -> tuple[Breaker, int]:
    """Permits for at most ``wanted`` messages while half-open, of those that the whole fleet may have in hand."""
    before = _locked(db, name)
    free = _freed(db, before, by=by, now=now)
    after, number = rules.on_trial(free, by=by, wanted=wanted, now=_second(now), patience=patience)
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
    after = rules.opened(before, cause, now=_second(now), roll=roll)
    return (_write(db, name, after) if after != before else before), False


def accepted(db: Database, name: str, *, number: int, now: datetime) -> Breaker | None:
    """After ``number`` acceptances. Writes only what is news; None when nothing was."""
    news = sa.or_(
        route.last_accepted_at.is_(None),
        route.last_accepted_at < now - STALE,
        route.last_accepted_at > now + STALE,  # the clock was put back; who is a little ahead is no news
        route.breaker != Gate.CLOSED.value,
        route.openings > 0,
        route.streak.is_not(None),
    )
    change = sa.update(outbox_route).where(route.name == name, news)
    found = db.execute(change.values(last_accepted_at=now, streak=None).returning(*route)).first()
    if found is None:
        return None
    before = after = _loaded(found)
    for _ in range(min(number, rules.FULL)):
        after = rules.accepted(after)
    return _write(db, name, after) if after != before else after


def hasten(db: Database, name: str, *, now: datetime) -> bool:
    """The next probe is due now: an operator has cured the fault. False where nothing is paused."""
    found = db.execute(sa.select(outbox_route).where(route.name == name).with_for_update()).first()
    before = Breaker() if found is None else _loaded(found)
    if before.gate is not Gate.OPEN:
        return False
    _write(db, name, rules.hastened(before, now=_second(now)))
    return True


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
    return _loaded(locked_row(db, name))


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
    db.execute(sa.update(outbox_route).where(route.name == name).values(_stored(after)))
    return after


def _stored(breaker: Breaker) -> dict[str, Any]:
    """``opened_at`` stays after the end: storms are counted from there."""
    started = {"opened_at": _moment(breaker.opened_at)} if breaker.gate is Gate.OPEN else {}
    trials = [{"by": trial.by, "until": _moment(trial.until).isoformat()} for trial in breaker.trials]
    return {
        "breaker": breaker.gate.value,
        "next_probe_at": _moment(breaker.next_probe_at) if breaker.gate is Gate.OPEN else None,
        "probing_by": breaker.probing_by,
        "probing_until": None if breaker.probing_until is None else _moment(breaker.probing_until),
        "openings": breaker.openings,
        "acceptances": breaker.acceptances,
        "allowance": breaker.allowance or 0,
        "needs_trials": breaker.needs_trials,
        "trials": trials or None,
        **started,
        **of_cause(breaker.cause),
    }


def _loaded(row: Any) -> Breaker:
    gate = rules.gate_of(row.breaker)
    return Breaker(
        gate=gate,
        cause=restore(
            row.cause_phase,
            row.cause_kind,
            row.cause_code,
            row.cause_enhanced,
            hint=row.cause_hint,
            ref=row.cause_ref,
        ),
        opened_at=_second(row.opened_at),
        next_probe_at=_second(row.next_probe_at),
        probing_by=row.probing_by,
        probing_until=None if row.probing_until is None else _second(row.probing_until),
        openings=row.openings,
        acceptances=row.acceptances,
        allowance=0 if gate is Gate.OPEN else row.allowance or None,
        needs_trials=row.needs_trials,
        trials=tuple(Trial(one["by"], _iso(one["until"])) for one in row.trials or ()),
    )


def _second(moment: datetime | None) -> float:
    return 0.0 if moment is None else moment.timestamp()


def _iso(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _moment(second: float) -> datetime:
    return datetime.fromtimestamp(second, UTC)
