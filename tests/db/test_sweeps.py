"""Nothing waits for ever, and nothing that has expired is sent."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from outbox_admin.db.store import sweeps
from tests.db.rows import NOW, add, claim, counted, later, read

DAYS = timedelta(days=3)


@pytest.mark.parametrize("held", [None, "alone", "hold:1", "key:aa", "unreadable"])
def test_a_row_past_its_time_expires_whatever_holds_it(engine: sa.Engine, held: str | None) -> None:
    with engine.begin() as db:
        row_id = add(db, expires_at=NOW, held=held, template_key="t")
        add(db, expires_at=later(seconds=1))
        assert sweeps.expire(db, now=NOW) == [row_id]
        stored = read(db, row_id)
        assert counted(db) == {"expired": 1}
    assert (stored.state, stored.payload, stored.key_id, stored.held) == ("expired", None, None, None)
    assert (stored.finished_at, stored.cause_kind) == (NOW, "expired")


def test_a_row_that_is_being_sent_is_left_to_its_worker(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, expires_at=later(seconds=1))
        claim(db)
        assert sweeps.expire(db, now=later(minutes=1)) == []
        assert read(db, row_id).state == "sending"


def test_a_row_that_waited_three_days_fails_with_its_payload(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, first_due_at=later(days=-3, seconds=-1), created_at=later(days=-9), attempts=2)
        add(db, first_due_at=later(days=-3, seconds=1))
        assert sweeps.give_up(db, now=NOW, after=DAYS) == [row_id]
        stored = read(db, row_id)
        assert counted(db) == {"gave_up": 1}
    assert (stored.state, stored.cause_kind, stored.payload, stored.attempts) == (
        "failed",
        "gave_up",
        b"sealed",
        2,
    )


@pytest.mark.parametrize(
    ("held", "ends"), [("hold:1", False), ("key:aa", False), ("alone", True), ("format", True)]
)
def test_a_pause_or_a_missing_key_is_no_reason_to_give_up(engine: sa.Engine, held: str, ends: bool) -> None:
    with engine.begin() as db:
        add(db, held=held, first_due_at=later(days=-4))
        assert bool(sweeps.give_up(db, now=NOW, after=DAYS)) is ends


def test_one_worker_of_all_looks_once_a_minute_for_what_is_given_up(engine: sa.Engine) -> None:
    def look(seconds: float) -> int:
        with engine.begin() as db:
            return len(sweeps.give_up_in_turn(db, now=later(seconds=seconds), after=DAYS, limit=2))

    assert look(0) == 0
    with engine.begin() as db:
        for _ in range(3):
            add(db, first_due_at=later(days=-4))
    assert look(59) == 0
    assert look(60) == 2
    assert look(60.5) == 1  # there was more to do
    with engine.begin() as db:
        add(db, first_due_at=later(days=-4))
    assert look(61) == 0
    assert look(121) == 1


def test_a_step_is_bounded_and_takes_the_oldest(engine: sa.Engine) -> None:
    with engine.begin() as db:
        rows = [add(db, expires_at=later(minutes=-minute)) for minute in (1, 2, 3)]
        assert sweeps.expire(db, now=NOW, limit=2) == sorted(rows[1:])
        assert sweeps.expire(db, now=NOW, limit=2) == rows[:1]
