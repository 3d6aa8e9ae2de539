"""Send slots in the database: one after the other for whoever asks, on both databases."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
import sqlalchemy as sa

from outbox_admin.core.rate import FURTHEST, Limit, Slot
from outbox_admin.db.schema import outbox_route
from outbox_admin.db.store import slots
from tests.support.clock import FakeClock

LIMIT = Limit(10)


def take(engine: sa.Engine, now: datetime, *, ahead: float = 60, limit: Limit = LIMIT) -> Slot | datetime:
    with engine.begin() as db:
        return slots.take(db, route="primary", limit=limit, now=now, ahead=ahead)


def test_slots_follow_each_other_at_the_rate(engine: sa.Engine, clock: FakeClock) -> None:
    taken = [take(engine, clock.now()) for _ in range(4)]
    moments = [slot.at for slot in taken if isinstance(slot, Slot)]
    steps = [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]
    assert steps == pytest.approx([LIMIT.step] * 3, abs=1e-5)


def test_too_early_leaves_the_row_as_it_was(engine: sa.Engine, clock: FakeClock) -> None:
    take(engine, clock.now())
    again = take(engine, clock.now(), ahead=0)
    assert isinstance(again, datetime)
    assert again > clock.now()
    first = take(engine, clock.now())
    assert isinstance(first, Slot)
    assert first.at == again


def test_a_route_keeps_what_else_its_row_says(engine: sa.Engine, clock: FakeClock) -> None:
    with engine.begin() as db:
        db.execute(sa.insert(outbox_route).values(name="primary", breaker="open", openings=3))
    take(engine, clock.now())
    with engine.begin() as db:
        row = db.execute(sa.select(outbox_route)).one()
    assert (row.breaker, row.openings, row.next_slot_at > clock.now()) == ("open", 3, True)


def test_e18_a_database_clock_that_was_put_back_holds_nothing_up(engine: sa.Engine, clock: FakeClock) -> None:
    take(engine, clock.now() + timedelta(hours=1))
    assert isinstance(take(engine, clock.now(), ahead=0), datetime)
    clock.advance(seconds=FURTHEST)
    assert isinstance(take(engine, clock.now(), ahead=0), Slot)


def test_no_slot_is_given_twice(engine: sa.Engine, clock: FakeClock) -> None:
    taken: list[Slot | datetime] = []

    def ask() -> None:
        taken.extend(take(engine, clock.now()) for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({slot.at for slot in taken if isinstance(slot, Slot)}) == 40
