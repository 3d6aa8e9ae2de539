"""Buttons: each does one conditional thing, and says why it did not."""

import threading
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin.db.store import operator, suppressions
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


@pytest.mark.parametrize("state", ["failed", "uncertain"])
def test_an_expired_link_is_never_sent_not_even_by_hand(engine: sa.Engine, state: str) -> None:
    with engine.begin() as db:
        row_id = add(db, state=state, expires_at=NOW, finished_at=later(days=-1))
        before = read(db, row_id)
        assert operator.retry(db, row_id, now=NOW) is RetryResult.EXPIRED
        assert read(db, row_id) == before
        assert counted(db) == {}


def test_e17_a_failed_row_that_a_newer_message_replaces_is_superseded_by_its_retry(engine: sa.Engine) -> None:
    with engine.begin() as db:
        old = add(db, state="failed", supersede_key="s", finished_at=later(days=-1), cause_kind="throttled")
        add(db, supersede_key="s", created_at=NOW, state="sent", payload=None, key_id=None)
        assert operator.retry(db, old, now=NOW) is RetryResult.SUPERSEDED
        stored = read(db, old)
        assert counted(db) == {"superseded": 1}
        assert operator.retry(db, old, now=NOW) is RetryResult.SUPERSEDED
        assert read(db, old) == stored
    assert (stored.state, stored.finished_at, stored.retries) == ("superseded", NOW, 0)
    assert (stored.payload, stored.key_id, stored.cause_kind) == (None, None, None)


def test_e17_a_row_in_doubt_is_not_sent_again_beside_a_newer_message(engine: sa.Engine) -> None:
    """Nor does it become superseded: it may have been delivered, and only a person can tell."""
    with engine.begin() as db:
        old = add(db, state="uncertain", supersede_key="s", finished_at=later(days=-1))
        add(db, supersede_key="s", created_at=NOW)
        before = read(db, old)
        assert operator.retry(db, old, now=NOW) is RetryResult.SUPERSEDED
        assert operator.resend(db, old, now=NOW) is RetryResult.SUPERSEDED
        assert read(db, old) == before


@pytest.mark.parametrize("state", ["failed", "uncertain"])
def test_a_suppressed_recipient_is_not_mailed_by_hand_either(engine: sa.Engine, state: str) -> None:
    with engine.begin() as db:
        row_id = add(db, state=state, finished_at=NOW)
        suppressions.add(db, recipient_key="jane@example.com", reason="asked", who="cli:ann", now=NOW)
        before = read(db, row_id)
        assert operator.retry(db, row_id, now=NOW) is RetryResult.SUPPRESSED
        assert read(db, row_id) == before
        suppressions.remove(db, recipient_key="jane@example.com")
        assert operator.retry(db, row_id, now=NOW) is RetryResult.MOVED


@pytest.mark.parametrize(
    ("state", "result"),
    [
        ("pending", RetryResult.ALREADY_PENDING),
        ("sending", RetryResult.SENDING),
        ("sent", RetryResult.ALREADY_SENT),
        ("failed", RetryResult.NOT_RETRYABLE),
        ("rejected", RetryResult.NOT_RETRYABLE),
        ("cancelled", RetryResult.NOT_RETRYABLE),
    ],
)
def test_only_a_row_in_doubt_is_settled_by_sending_it_again(
    engine: sa.Engine, state: str, result: RetryResult
) -> None:
    with engine.begin() as db:
        row_id = add(db, state=state)
        before = read(db, row_id)
        assert operator.resend(db, row_id, now=NOW) is result
        assert read(db, row_id) == before


def test_a_row_in_doubt_that_is_sent_again_starts_anew_and_stays_marked(engine: sa.Engine) -> None:
    with engine.begin() as db:
        doubt = {"state": "uncertain", "maybe_delivered": True, "handover_at": later(hours=-2)}
        row_id = add(db, **doubt, attempts=3, tries=4, finished_at=later(hours=-2))
        assert operator.resend(db, row_id, now=NOW) is RetryResult.MOVED
        [owned] = claim(db)
        stored = read(db, row_id)
    assert (owned.attempt, owned.tries, owned.maybe_delivered) == (1, 5, True)
    assert (stored.retries, stored.handover_at, stored.finished_at) == (1, None, None)


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
        row_id = add(db, state="uncertain", finished_at=later(days=-1), handover_at=later(days=-2))
        assert operator.settle(db, row_id, arrived=arrived, now=NOW) is True
        stored = read(db, row_id)
        assert operator.settle(db, row_id, arrived=not arrived, now=NOW) is False
        assert operator.resend(db, row_id, now=NOW) is not RetryResult.MOVED
        assert read(db, row_id) == stored
    assert (stored.state, stored.payload, stored.key_id, stored.finished_at) == (state, None, None, NOW)
    assert stored.sent_at == (later(days=-2) if arrived else None)
