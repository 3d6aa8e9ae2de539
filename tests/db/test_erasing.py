"""Erasing in the store: what goes, what stays, and in which order, so that a broken-off one finds everything again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.schema import email_attempt, email_outbox
from outbox_admin.db.store import erasing
from outbox_admin.db.store.erasing import Erased
from outbox_admin.ids import new_id
from tests.db.rows import NOW, add, attempts, later, read

JANE, MARK = "jane@example.com", "erased:0123456789abcdef"
DONE = ("sent", "rejected", "expired", "cancelled", "superseded")


def step(db: sa.Connection, *, limit: int = 500) -> Erased:
    return erasing.erase(db, recipient_key=JANE, mark=MARK, now=NOW, limit=limit)


def add_done(db: sa.Connection, state: str, **values: Any) -> UUID:
    return add(db, state=state, payload=None, key_id=None, finished_at=later(days=-1), **values)


def add_try(db: sa.Connection, row_id: UUID) -> None:
    values = {
        "cause_hint": "jane words",
        "detail": b"sealed",
        "cause_kind": "throttled",
        "redirected_to": "b@x.example",
    }
    known = {
        "id": new_id(),
        "outbox_id": row_id,
        "number": 1,
        "counted": True,
        "ended_at": NOW,
        "outcome": "deferred",
    }
    db.execute(sa.insert(email_attempt).values(known | values))


@pytest.mark.parametrize("state", DONE)
def test_e28_what_is_done_loses_the_person_and_keeps_its_keys(engine: sa.Engine, state: str) -> None:
    with engine.begin() as db:
        row_id = add_done(
            db,
            state,
            recipient="Jane@Example.com",
            message_id="<1@shop.example>",
            provider_id="4XyZ",
            cause_kind="throttled",
            cause_hint="mailbox full",
            detail=b"sealed",
            correlation_id="order 7",
            supersede_key="reset:7",
        )
        add_try(db, row_id)
        assert step(db) == Erased(replaced=1)
        row = read(db, row_id)
        assert (row.recipient, row.recipient_key) == (MARK, MARK)
        assert (row.message_id, row.provider_id, row.cause_hint, row.detail) == (None,) * 4
        assert (row.state, row.finished_at, row.cause_kind) == (state, later(days=-1), "throttled")
        assert (row.idempotency_key, row.correlation_id, row.supersede_key) == (
            f"test:{row_id}",
            "order 7",
            "reset:7",
        )
        (one,) = attempts(db, row_id)
        assert (one.cause_hint, one.detail, one.cause_kind) == (None, None, "throttled")
        assert one.redirected_to == "b@x.example"


@pytest.mark.parametrize(
    ("state", "held"),
    [("pending", None), ("pending", "hold:1"), ("pending", "alone"), ("failed", None), ("uncertain", None)],
)
def test_e28_what_has_a_payload_is_cancelled_and_erased(
    engine: sa.Engine, state: str, held: str | None
) -> None:
    finished_at = None if state == "pending" else later(days=-1)
    with engine.begin() as db:
        row_id = add(db, state=state, held=held, finished_at=finished_at, detail=b"sealed")
        assert step(db) == Erased(withdrawn=1, replaced=1)
        row = read(db, row_id)
        assert (row.state, row.held, row.payload, row.key_id, row.detail) == (
            "cancelled",
            None,
            None,
            None,
            None,
        )
        assert (row.recipient, row.finished_at) == (MARK, finished_at or NOW)


def test_e28_the_other_recipients_rows_of_the_same_message_lose_its_payload(engine: sa.Engine) -> None:
    with engine.begin() as db:
        mine = add_done(db, "sent", idempotency_key="m", part=0)
        waiting = add(
            db, idempotency_key="m", part=1, recipient="joe@x.example", recipient_key="joe@x.example"
        )
        sent = add_done(
            db, "sent", idempotency_key="m", part=2, recipient="ann@x.example", recipient_key="ann@x.example"
        )
        another = add(db, idempotency_key="n", recipient="joe@x.example", recipient_key="joe@x.example")
        assert step(db) == Erased(siblings=1, replaced=1)
        told = [
            (read(db, row_id).state, read(db, row_id).recipient) for row_id in (mine, waiting, sent, another)
        ]
        assert told == [
            ("sent", MARK),
            ("cancelled", "joe@x.example"),
            ("sent", "ann@x.example"),
            ("pending", "joe@x.example"),
        ]


@pytest.mark.parametrize("beside", [False, True])
def test_e28_what_is_being_sent_is_waited_for_and_the_address_stays_until_then(
    engine: sa.Engine, beside: bool
) -> None:
    """Whether the person's own row is being sent, or that of another recipient of the same message."""
    states = ["sent", "sending"] if beside else ["sending", "sent"]
    values: dict[str, dict[str, Any]] = {
        "sending": {"state": "sending"},
        "sent": {"state": "sent", "payload": None, "key_id": None, "finished_at": NOW},
    }
    with engine.begin() as db:
        mine = add(db, idempotency_key="m", part=0, **values[states[0]])
        other = add(db, idempotency_key="m", part=1, recipient_key="joe@x.example", **values[states[1]])
        assert step(db) == Erased(left=1, sending=1)
        assert step(db) == Erased(left=1, sending=1)
        assert read(db, mine).recipient == JANE
        sending = other if beside else mine
        put_off = sa.update(email_outbox).where(email_outbox.c.id == sending)
        db.execute(put_off.values(state="pending", due_at=later(hours=1)))  # the relay deferred it
        assert step(db) == Erased(withdrawn=0 if beside else 1, siblings=1 if beside else 0, replaced=1)
        assert read(db, sending).state == "cancelled"


def test_erasing_goes_on_in_bounded_steps_and_then_finds_nothing(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for _ in range(7):
            add(db)
            add_done(db, "sent")
        bystander = add(db, recipient="joe@x.example", recipient_key="joe@x.example")
        steps = [step(db, limit=3)]
        while steps[-1].left:
            steps.append(step(db, limit=3))
            assert steps[-1].moved
        assert [one.withdrawn for one in steps] == [3, 3, 1, 0, 0]
        assert [one.replaced for one in steps] == [3, 3, 3, 3, 2]
        assert step(db) == Erased()
        assert read(db, bystander).state == "pending"


def test_e27_no_row_with_a_payload_changes_its_recipient(engine: sa.Engine) -> None:
    """Its envelope is bound to the address: it could never be opened again."""
    with engine.begin() as db:
        ids = [add(db, state=state) for state in (State.SENDING, State.FAILED, State.PENDING)]
        while step(db, limit=1).moved:
            for row_id in ids:
                row = read(db, row_id)
                assert (row.payload is None) or row.recipient == JANE
        assert [read(db, row_id).state for row_id in ids] == ["sending", "cancelled", "cancelled"]
