"""Counts per minute become counts per hour, then totals; what is counted stays the same."""

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from outbox_admin.db.reads import traffic
from outbox_admin.db.schema import outbox_minute
from outbox_admin.db.store import minutes
from outbox_admin.db.store.minutes import Tick
from tests.db.rows import NOW, later

HOUR = NOW.replace(minute=0, second=0, microsecond=0)


def counted(db: sa.Connection, at: datetime, *, shard: int = 0, outcome: str = "accepted") -> None:
    minutes.count(db, [Tick(outcome, "t", 3.0)], now=at, shard=shard)


def stored(db: sa.Connection) -> list[tuple[Any, ...]]:
    one = outbox_minute.c
    return [
        tuple(row)
        for row in db.execute(sa.select(one.minute, one.shard, one.count, one.le_5).order_by(one.minute))
    ]


def test_an_hour_that_is_over_becomes_one_row(engine: sa.Engine) -> None:
    start = HOUR - timedelta(hours=3)
    with engine.begin() as db:
        for minute, shard in ((0, 0), (0, 1), (59, 15)):
            counted(db, start + timedelta(minutes=minute), shard=shard)
        counted(db, later(minutes=-1))
        before = traffic.outcomes(db, since=later(days=-1), until=NOW, step=timedelta(hours=1))
        assert minutes.roll_up(db, now=NOW) == 1
        assert stored(db)[0] == (start, minutes.HOUR_SHARD, 3, 3)
        assert len(stored(db)) == 2
        assert traffic.outcomes(db, since=later(days=-1), until=NOW, step=timedelta(hours=1)) == before


def test_the_chart_of_the_last_hour_keeps_its_minutes(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for minute in range(61):
            counted(db, later(minutes=-minute))
        minutes.roll_up(db, now=NOW)
        assert all(shard != minutes.HOUR_SHARD for _, shard, *_ in stored(db))


def test_what_comes_late_is_counted_where_it_belongs(engine: sa.Engine) -> None:
    start = HOUR - timedelta(hours=3)
    with engine.begin() as db:
        counted(db, start)
        minutes.roll_up(db, now=NOW)
        counted(db, start)
        minutes.roll_up(db, now=later(minutes=5))
        assert traffic.totals(db) == {"accepted": 2}


def test_hours_that_no_chart_shows_go_into_the_totals(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for days in (7, 9, 10):
            counted(db, later(days=-days))
        while minutes.roll_up(db, now=NOW):
            pass
        minutes.roll_up(db, now=later(minutes=5))
        assert traffic.totals(db) == {"accepted": 3}
        assert [(moment, count) for moment, _, count, _ in stored(db)] == [
            (minutes.BEGINNING, 2),
            ((later(days=-7)).replace(minute=0, second=0, microsecond=0), 1),
        ]


def test_many_hours_are_made_a_few_at_a_time_and_the_turn_is_free_again_at_once(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for hours in range(3, 11):
            counted(db, later(hours=-hours))
        assert [minutes.roll_up(db, now=NOW) for _ in range(3)] == [minutes.HOURS_AT_ONCE, 2, 0]
