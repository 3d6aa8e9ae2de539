"""Due rows that must not be sent now are turned away before they are claimed, and keep nobody behind them waiting."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from outbox_admin.core.hold import Scope
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store import candidates, claims, holds, marks, suppressions
from outbox_admin.db.store.claims import TurnedAway
from outbox_admin.ids import new_id
from tests.db.rows import KID, LEASE, NOW, add, alone, claim, counted, later, read

JOE = {"recipient": "joe@example.net", "recipient_key": "joe@example.net"}


def hold(
    db: sa.Connection,
    scope: Scope = Scope.DOMAIN,
    value: str = "example.com",
    *,
    until: datetime | None = None,
) -> str:
    """Its stamp."""
    made = holds.place(db, scope=scope, value=value, reason="why", who="cli:ann", until=until, now=NOW)
    return f"hold:{made.hex}"


def suppress(db: sa.Connection, key: str = "jane@example.com") -> None:
    suppressions.add(db, recipient_key=key, reason="asked", who="cli:ann", now=NOW)


def test_e15_a_row_under_a_hold_is_stamped_and_never_claimed(engine: sa.Engine) -> None:
    with engine.begin() as db:
        held, free = add(db, attempts=3, tries=4), add(db, **JOE)
        stamp = hold(db)
        assert [one.id for one in claim(db)] == [free]
        row = read(db, held)
    assert (row.state, row.held, row.attempts, row.tries) == ("pending", stamp, 3, 4)
    assert (row.claim_token, row.claimed_by, row.payload) == (None, None, b"sealed")


def test_e28_a_suppressed_recipient_is_cancelled_and_never_claimed(engine: sa.Engine) -> None:
    with engine.begin() as db:
        listed, free = add(db, attempts=1, tries=1), add(db, **JOE)
        suppress(db)
        assert [one.id for one in claim(db)] == [free]
        row = read(db, listed)
        assert counted(db) == {"suppressed": 1}
    assert (row.state, row.cause_kind, row.payload, row.key_id) == ("cancelled", "suppressed", None, None)
    assert (row.attempts, row.tries, row.finished_at) == (1, 1, NOW)


def test_what_ends_for_good_comes_before_what_only_waits(engine: sa.Engine) -> None:
    with engine.begin() as db:
        replaced = add(db, supersede_key="s")
        add(db, supersede_key="s", created_at=NOW, due_at=later(days=1))
        listed = add(db, **JOE)
        hold(db, Scope.EVERYTHING, "")
        suppress(db, JOE["recipient_key"])
        assert claim(db) == []
        assert [read(db, one).state for one in (replaced, listed)] == ["superseded", "cancelled"]


def test_a_claim_that_turns_rows_away_claims_nothing_in_the_same_transaction(engine: sa.Engine) -> None:
    """Else it would hold locks on rows that somebody wants who holds those that it wants."""
    with engine.begin() as db:
        add(db)
        free = add(db, **JOE)
        hold(db)
        mine: dict[str, Any] = {"now": NOW, "limit": 20, "worker": "w", "lease": LEASE, "usable": {KID}}
        assert claims.claim_batch(db, token=uuid4(), **mine) == TurnedAway(1)
        assert read(db, free).state == "pending"
        claimed = claims.claim_batch(db, token=uuid4(), **mine)
        assert isinstance(claimed, list)
        assert [one.id for one in claimed] == [free]


def test_a_long_row_of_held_messages_is_passed_by_the_hundreds(engine: sa.Engine) -> None:
    with engine.begin() as db:
        many(db, 1_200)
        free = add(db, **JOE)
        stamp = hold(db)
        turns = 0
        mine: dict[str, Any] = {"now": NOW, "limit": 1, "worker": "w", "lease": LEASE, "usable": None}
        while isinstance(claimed := claims.claim_batch(db, token=uuid4(), **mine), TurnedAway):
            turns += 1
        assert ([one.id for one in claimed], turns) == ([free], 3)
        stamped = sa.select(sa.func.count()).where(email_outbox.c.held == stamp)
        assert db.execute(stamped).scalar_one() == 1_200


def many(db: sa.Connection, number: int) -> None:
    """Rows that are due before all others, by one statement."""
    made = {"recipient": "jane@example.com", "recipient_key": "jane@example.com", "key_id": KID}
    times = dict.fromkeys(("created_at", "due_at", "first_due_at"), later(hours=-1))
    ids = [new_id() for _ in range(number)]
    rows = [{"id": one, "idempotency_key": one.hex, "payload": b"sealed", **made, **times} for one in ids]
    db.execute(sa.insert(email_outbox), rows)


def test_a_row_that_travels_alone_waits_under_a_hold_and_keeps_its_stamp(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, held="alone")
        hold(db, until=later(minutes=1))
        assert (alone(db), read(db, row_id).held) == ([], "alone")
        assert [one.id for one in alone(db, now=later(minutes=1))] == [row_id]


def test_a_suppressed_row_that_travels_alone_is_cancelled(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, held="alone")
        suppress(db)
        assert alone(db) == []
        assert read(db, row_id).state == "cancelled"


@pytest.mark.postgresql
def test_rows_that_another_is_turning_away_are_passed_over(postgres_engine: sa.Engine) -> None:
    with postgres_engine.begin() as db:
        add(db)
        free = add(db, **JOE)
        hold(db)
    with postgres_engine.begin() as first, postgres_engine.begin() as second:
        found = candidates.due(first, now=NOW, limit=1, usable=None)
        assert (len(found.covered), candidates.turn_away(first, found, now=NOW)) == (1, 1)
        assert [one.id for one in claim(second)] == [free]


def test_e15_a_hold_placed_since_the_claim_stops_at_the_mark(engine: sa.Engine) -> None:
    with engine.begin() as db:
        held, free = add(db, attempts=2, tries=2), add(db, **JOE)
        owned = claim(db)
        stamp = hold(db)
        assert marks.mark_handover(db, owned, now=later(seconds=1), lease=LEASE) == {free}
        row = read(db, held)
    assert (row.state, row.held, row.attempts, row.tries) == ("pending", stamp, 2, 2)
    assert (row.handover_at, row.lease_until, row.payload) == (None, None, b"sealed")


def test_a_hold_at_the_mark_leaves_a_row_alone_that_travels_alone(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, held="alone")
        owned = alone(db)
        hold(db)
        assert marks.mark_handover(db, owned, now=NOW, lease=LEASE) == set()
        assert (read(db, row_id).state, read(db, row_id).held) == ("pending", "alone")


def test_e28_a_recipient_suppressed_since_the_claim_is_given_back_and_cancelled_by_the_next_claim(
    engine: sa.Engine,
) -> None:
    """What is being sent is never cancelled (E27): it waits again for that moment."""
    with engine.begin() as db:
        listed, free = add(db), add(db, **JOE)
        owned = claim(db)
        suppress(db)
        assert marks.mark_handover(db, owned, now=NOW, lease=LEASE) == {free}
        given_back = read(db, listed)
        assert (given_back.state, given_back.held, given_back.attempts) == ("pending", None, 0)
        assert claim(db) == []
        row = read(db, listed)
        assert counted(db) == {"suppressed": 1}
    assert (row.state, row.cause_kind, row.payload, row.key_id) == ("cancelled", "suppressed", None, None)
    assert (row.attempts, row.tries, row.finished_at) == (0, 0, NOW)


def test_e9_urgent_rows_are_found_before_any_other_whatever_is_turned_away(engine: sa.Engine) -> None:
    with engine.begin() as db:
        normal: list[UUID] = [add(db, due_at=later(hours=-1)) for _ in range(3)]
        urgent = add(db, **JOE, priority=0)
        hold(db)
        assert [one.id for one in claim(db, limit=1)] == [urgent]
        assert {read(db, one).held for one in normal} == {None}


@pytest.mark.postgresql
def test_a_hold_that_is_lifted_while_the_mark_turns_its_rows_away_leaves_none_of_them_behind(
    postgres_engine: sa.Engine,
) -> None:
    """Each statement sees what was committed before it: what the mark left out, nothing after it may find held."""
    with postgres_engine.begin() as db:
        row_id = add(db)
        owned = claim(db)
        stamp = hold(db)

    def lift(connection: sa.Connection, cursor: object, text: str, *rest: object) -> None:
        if text.startswith("UPDATE email_outbox SET lease_until") and not lifted:
            lifted.append(text)
            with postgres_engine.begin() as other:
                holds.lift(other, UUID(stamp.removeprefix("hold:")), now=NOW)

    lifted: list[str] = []
    with postgres_engine.begin() as db:
        sa.event.listen(db, "after_cursor_execute", lift)
        assert marks.mark_handover(db, owned, now=NOW, lease=LEASE) == set()
    with postgres_engine.begin() as db:
        row = read(db, row_id)
        assert (len(lifted), row.state, row.held, row.attempts, row.lease_until) == (
            1,
            "pending",
            None,
            0,
            None,
        )
        assert [one.id for one in claim(db)] == [row_id]
