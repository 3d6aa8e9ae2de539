"""Buttons: each does one conditional thing, and says why it did not."""

import threading
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin.db.store import operator
from outbox_admin.db.store.operator import RetryResult
from tests.db.rows import NOW, add, claim, counted, later, read


@pytest.mark.parametrize("state", ["failed", "uncertain"])
def test_a_retry_starts_anew_and_keeps_the_history(engine: sa.Engine, state: str) -> None:
    with engine.begin() as db:
        done = {"finished_at": later(days=-1), "attempts": 8, "tries": 11, "cause_kind": "throttled"}
        row_id = add(db, state=state, retries=1, channel_faults=2, maybe_delivered=True, **done)
        assert operator.retry(db, row_id, now=NOW) is RetryResult.MOVED
        stored = read(db, row_id)
        assert len(claim(db)) == 1
    assert (stored.state, stored.attempts, stored.retries, stored.tries) == ("pending", 0, 2, 11)
    assert (stored.due_at, stored.first_due_at, stored.finished_at) == (NOW, NOW, None)
    assert (stored.maybe_delivered, stored.cause_kind, stored.channel_faults) == (True, "throttled", 0)


def test_oc_61_pressed_twice_at_the_same_moment(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, state="failed", finished_at=NOW)
    results: list[RetryResult] = []

    def press() -> None:
        with engine.begin() as db:
            results.append(operator.retry(db, row_id, now=NOW))

    presses = [threading.Thread(target=press) for _ in range(4)]
    for one in presses:
        one.start()
    for one in presses:
        one.join()
    assert sorted(results) == [RetryResult.ALREADY_PENDING] * 3 + [RetryResult.MOVED]
    with engine.begin() as db:
        assert read(db, row_id).retries == 1


@pytest.mark.parametrize(
    ("values", "result"),
    [
        ({}, RetryResult.ALREADY_PENDING),
        ({"state": "sending"}, RetryResult.SENDING),
        ({"state": "sent", "payload": None}, RetryResult.ALREADY_SENT),
        ({"state": "failed", "payload": None}, RetryResult.PAYLOAD_GONE),
        ({"state": "uncertain", "payload": None}, RetryResult.PAYLOAD_GONE),
        ({"state": "rejected", "payload": None}, RetryResult.NOT_RETRYABLE),
        ({"state": "cancelled", "payload": None}, RetryResult.NOT_RETRYABLE),
        ({"state": "expired", "payload": None}, RetryResult.EXPIRED),
    ],
)
def test_oc_62_a_row_that_cannot_be_retried_says_why_and_stays(
    engine: sa.Engine, values: dict[str, object], result: RetryResult
) -> None:
    with engine.begin() as db:
        row_id = add(db, **values)
        before = read(db, row_id)
        assert operator.retry(db, row_id, now=NOW) is result
        assert read(db, row_id) == before


def test_oc_62_an_id_that_does_not_exist(engine: sa.Engine) -> None:
    with engine.begin() as db:
        assert operator.retry(db, UUID(int=1), now=NOW) is RetryResult.UNKNOWN


def test_an_expired_link_is_never_sent_not_even_by_hand(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, state="failed", expires_at=NOW, finished_at=later(days=-1))
        assert operator.retry(db, row_id, now=NOW) is RetryResult.EXPIRED
        stored = read(db, row_id)
        assert counted(db) == {"expired": 1}
    assert (stored.state, stored.payload, stored.cause_kind) == ("expired", None, "expired")


@pytest.mark.parametrize(
    ("values", "done"),
    [
        ({}, True),
        ({"held": "key:aa"}, True),
        ({"state": "failed"}, True),
        ({"state": "uncertain"}, False),
        ({"state": "sending"}, False),
        ({"state": "sent"}, False),
    ],
)
def test_only_what_waits_or_failed_can_be_cancelled(
    engine: sa.Engine, values: dict[str, object], done: bool
) -> None:
    with engine.begin() as db:
        row_id = add(db, **values)
        assert operator.cancel(db, row_id, now=NOW) is done
        assert operator.cancel(db, row_id, now=NOW) is False
        stored = read(db, row_id)
    assert (stored.state == "cancelled") is done
    if done:
        assert (stored.payload, stored.key_id, stored.held, stored.finished_at) == (None, None, None, NOW)


@pytest.mark.parametrize(("arrived", "state"), [(True, "sent"), (False, "cancelled")])
def test_an_uncertain_row_is_settled_by_an_answer(engine: sa.Engine, arrived: bool, state: str) -> None:
    with engine.begin() as db:
        row_id = add(db, state="uncertain", finished_at=later(days=-1))
        assert operator.settle(db, row_id, arrived=arrived, now=NOW) is True
        assert operator.settle(db, row_id, arrived=not arrived, now=NOW) is False
        stored = read(db, row_id)
    assert (stored.state, stored.payload) == (state, None)
    assert (stored.sent_at is not None) is arrived
