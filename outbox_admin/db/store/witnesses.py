"""What each worker last met on each route: by this a sick worker is told from a sick relay (E23).

A worker writes its own rows only, so nobody waits for anybody here.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from outbox_admin.core.breaker import Breaker
from outbox_admin.core.health import LOST_AFTER
from outbox_admin.core.storm import Slice, Weather
from outbox_admin.db.schema import outbox_route_worker, outbox_worker
from outbox_admin.db.store.rows import Database, among, upsert

#: Who had an acceptance or a good probe so recently, and no fault since, is well.
RECENT = timedelta(seconds=30)
#: A worker whose probe failed leaves the next one to others that were well within this time, for so many seconds.
REMEMBERED, COURTESY = timedelta(minutes=10), 5.0

witness = outbox_route_worker.c


def note(db: Database, route: str, *, worker: str, now: datetime, good: bool) -> None:
    """``good``: an acceptance or a good probe; else a fault of the channel."""
    _put(db, route, worker, {"good_at" if good else "fault_at": now})


def note_weather(db: Database, route: str, *, worker: str, weather: Weather | None) -> None:
    """The judgements that this worker saw in the last minutes; None: they have been taken note of."""
    slices = [[part.start, part.judged, part.rejected] for part in weather.slices] if weather else []
    _put(db, route, worker, {"weather": slices or None})


def others_are_well(db: Database, route: str, *, worker: str, now: datetime) -> bool:
    """Whether another worker gets through, so far as anybody knows."""
    return _exists(db, _other(route, worker), _well(now, RECENT), _still_there(now))


def defers(db: Database, route: str, breaker: Breaker, *, worker: str, now: datetime) -> bool:
    """Whether ``worker`` should leave this probe to another: its own last one failed, and others may do better.

    Without it one sick worker could win probe after probe and keep the route of a quiet fleet shut.
    """
    if now.timestamp() >= breaker.next_probe_at + COURTESY:
        return False
    failed = sa.and_(witness.route == route, witness.worker == worker, witness.fault_at > now - REMEMBERED)
    return _exists(db, failed) and _exists(
        db, _other(route, worker), _well(now, REMEMBERED), _still_there(now)
    )


def weathers(db: Database, route: str, *, but: str) -> list[Weather]:
    """What the other workers saw."""
    told = sa.select(witness.weather).where(_other(route, but), witness.weather.is_not(None))
    return [
        Weather(tuple(Slice(*part) for part in slices)) for slices in db.execute(told).scalars() if slices
    ]


def forget(db: Database, workers: Collection[str]) -> None:
    """Removes what these left behind."""
    db.execute(sa.delete(outbox_route_worker).where(among(witness.worker, workers)))


def _other(route: str, worker: str) -> sa.ColumnElement[bool]:
    return sa.and_(witness.route == route, witness.worker != worker)


def _well(now: datetime, within: timedelta) -> sa.ColumnElement[bool]:
    """Not by a time that lies ahead: the clock was put back since."""
    faultless = sa.or_(witness.fault_at.is_(None), witness.fault_at < witness.good_at)
    return sa.and_(witness.good_at.between(now - within, now + RECENT), faultless)


def _still_there(now: datetime) -> sa.ColumnElement[bool]:
    """Not one that has stopped or was lost; a worker that was started anew has another name."""
    worker = outbox_worker.c
    gone = sa.or_(worker.beat_at < now - LOST_AFTER, worker.state == "stopped")
    return ~sa.exists().where(worker.id == witness.worker, gone)


def _exists(db: Database, *where: sa.ColumnElement[bool]) -> bool:
    return (
        db.execute(sa.select(sa.literal(1)).select_from(outbox_route_worker).where(*where)).first()
        is not None
    )


def _put(db: Database, route: str, worker: str, values: dict[str, Any]) -> None:
    insert = upsert(db, outbox_route_worker).values(route=route, worker=worker, **values)
    key = [witness.route, witness.worker]
    db.execute(
        insert.on_conflict_do_update(
            index_elements=key, set_={name: insert.excluded[name] for name in values}
        )
    )
