"""What the console and the metrics see of routes and their breakers: who pauses, why, and when it is tried next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from outbox_admin.core.breaker import Gate, gate_of
from outbox_admin.core.catalogue import restore
from outbox_admin.core.cause import Cause
from outbox_admin.core.health import LOST_AFTER, Pause
from outbox_admin.db.reads.rows import Database
from outbox_admin.db.schema import outbox_route, outbox_worker


@dataclass(frozen=True, slots=True)
class Lone:
    """A worker that has paused a route for itself while others go on: one sick machine, not a sick relay (E23)."""

    worker: str  #: ``host:pid``
    cause: Cause | None
    since: datetime | None
    next_probe_at: datetime | None


@dataclass(frozen=True, slots=True)
class RouteState:
    """One route as the whole fleet sees it.

    ``since``, ``cause`` and ``next_probe_at`` are None while it is closed. ``probing_by``: the worker (``host:pid``)
    whose probe is under way. ``on_trial`` of ``allowance``: messages in hand while half-open. ``is_used``: a live
    worker has it in its settings, or no worker is alive that could say.
    """

    name: str
    gate: Gate
    cause: Cause | None
    since: datetime | None
    next_probe_at: datetime | None
    probing_by: str | None
    on_trial: int
    allowance: int
    last_accepted_at: datetime | None
    is_used: bool
    alone: tuple[Lone, ...] = ()


def routes(db: Database, *, now: datetime) -> list[RouteState]:
    """Every route that has a state or a live worker, in the order of names."""
    crew = _alive(db, now=now)
    used = {name for worker in crew for name in worker.routes or ()}
    rows = {row.name: row for row in db.execute(sa.select(outbox_route))}
    alone = _alone(crew)
    return [
        _state(name, rows.get(name), now=now, is_used=not crew or name in used, alone=alone.get(name, ()))
        for name in sorted({*rows, *used, *alone})
    ]


def pauses(db: Database, *, now: datetime) -> tuple[Pause, ...]:
    """What stands still, for the findings: the fleet's first, then single workers'."""
    found = routes(db, now=now)
    shared = [
        Pause(
            route.name,
            None,
            route.cause,
            route.since,
            route.next_probe_at,
            trials=route.allowance if route.gate is Gate.HALF_OPEN else None,
            probing_by=route.probing_by,
        )
        for route in found
        if route.gate is not Gate.CLOSED and route.is_used
    ]
    own = [
        Pause(route.name, lone.worker, lone.cause, lone.since, lone.next_probe_at)
        for route in found
        for lone in route.alone
    ]
    return (*shared, *own)


def _alive(db: Database, *, now: datetime) -> Sequence[Any]:
    worker = outbox_worker.c
    told = (worker.host, worker.pid, worker.routes, worker.breakers)
    alive = (worker.state != "stopped", worker.beat_at > now - LOST_AFTER)
    return db.execute(sa.select(*told).where(*alive).order_by(worker.host, worker.pid)).all()


def _state(name: str, row: Any, *, now: datetime, is_used: bool, alone: Sequence[Lone]) -> RouteState:
    """``row`` None: nothing has gone over this route yet."""
    state = RouteState(name, Gate.CLOSED, None, None, None, None, 0, 0, None, is_used, tuple(alone))
    if row is None:
        return state
    gate, told = gate_of(row.breaker), replace(state, last_accepted_at=row.last_accepted_at)
    if gate is Gate.CLOSED:
        return told
    cause = restore(row.cause_phase, row.cause_kind, row.cause_code, row.cause_enhanced)
    stopped = replace(told, gate=gate, cause=cause, since=row.opened_at)
    if gate is Gate.OPEN:
        is_probing = row.probing_until is not None and row.probing_until > now
        prober = _short(row.probing_by) if is_probing else None
        return replace(stopped, next_probe_at=row.next_probe_at, probing_by=prober)
    on_trial = sum(datetime.fromisoformat(trial["until"]) > now for trial in row.trials or ())
    return replace(stopped, on_trial=on_trial, allowance=row.allowance)


def _alone(crew: Sequence[Any]) -> dict[str, list[Lone]]:
    found: dict[str, list[Lone]] = {}
    for worker in crew:
        for route, lone in _own(worker):
            found.setdefault(route, []).append(lone)
    return found


def _own(worker: Any) -> Iterator[tuple[str, Lone]]:
    for route, told in (worker.breakers or {}).items():
        cause = restore(*(told.get(part) for part in ("phase", "kind", "code", "enhanced")))
        yield (
            route,
            Lone(f"{worker.host}:{worker.pid}", cause, _time(told.get("since")), _time(told.get("until"))),
        )


def _short(worker: str | None) -> str | None:
    """``host:pid`` of ``host:pid:random``."""
    return None if worker is None else worker.rpartition(":")[0] or worker


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
