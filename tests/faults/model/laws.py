"""The laws of the queue, read off its rows after each step. Written from the rules, not from the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tests.faults.model.truth import Truth

LIVE = {"pending", "sending"}
KEEPING = LIVE | {"failed", "uncertain"}  #: states with a payload
FINAL = {"sent", "rejected", "expired", "cancelled", "superseded"}
VOID = {"cancelled", "rejected", "expired"}  #: a newer message in these took nobody's place


def check(rows: Sequence[Any], before: Mapping[UUID, Any], truth: Truth) -> None:
    """All of them, on all rows."""
    found = {row.id: row for row in rows}
    assert found.keys() == truth.owed.keys(), "a row was lost, or came from nowhere"
    for row in rows:
        _shape(row, truth)
        _attempts(row)
        _copies(row, truth)
        if row.id in before:
            _change(before[row.id], row)


def _shape(row: Any, truth: Truth) -> None:
    """Payload, times and claim stand exactly where the state says."""
    if row.state in KEEPING and not (row.state not in LIVE and row.id in truth.purged):
        assert row.payload is not None, f"{row.state} without its payload"
    if row.state not in KEEPING:
        assert row.payload is None, f"{row.state} with a payload"
    assert (row.payload is None) == (row.key_id is None), "key_id goes with the payload"
    assert (row.finished_at is None) == (row.state in LIVE), f"finished_at of {row.state}"
    assert (row.sent_at is not None) == (row.state == "sent")
    claimed = (row.claim_token, row.claimed_by, row.lease_until)
    if row.state == "sending":
        assert None not in claimed, "sending, and nobody's"
        assert row.held in (None, "alone"), row.held
    else:
        assert row.lease_until is None, f"{row.state} with a lease"
    if row.state not in LIVE:
        assert row.held is None, f"{row.state} and held"


def _attempts(row: Any) -> None:
    assert 0 <= row.attempts <= row.max_attempts, f"{row.attempts} attempts of {row.max_attempts}"
    assert row.state != "pending" or row.attempts < row.max_attempts, "waits without an attempt left"
    assert row.state != "sending" or row.attempts > 0
    assert row.tries >= 0


def _copies(row: Any, truth: Truth) -> None:
    """No copy that nobody knows of: neither a second one, nor one of a row that says it was not delivered."""
    copies = truth.copies(row.id)
    if copies > 1:
        assert row.maybe_delivered, f"{copies} copies of a row that does not say so"
    if row.on_unknown == "hold":
        assert copies <= 1 + truth.resends[row.id], "sent again although it must be at most once"
    if copies and row.state != "sent":
        known = row.maybe_delivered or (row.state == "sending" and row.handover_at is not None)
        assert known, f"{row.state}, taken by the relay, and nothing says so"
    if row.state == "sent" and row.id not in truth.settled:
        assert copies, "sent, and no relay has it"


def _change(before: Any, after: Any) -> None:
    if before.state in FINAL:
        assert after.state == before.state, f"{before.state} became {after.state}"
    assert after.maybe_delivered or not before.maybe_delivered, "a doubt was forgotten"
    assert after.tries >= before.tries - 1, "a try was forgotten"


def handover(row: Any, *, worker: str, now: datetime) -> None:
    """As its first octet may leave: the row is in one hand, long enough, and in time."""
    assert (row.state, row.claimed_by) == ("sending", worker), "sent by one who does not own it"
    assert row.handover_at is not None, "nothing would tell that it was handed over"
    assert row.lease_until - now >= timedelta(seconds=180), "the lease may end in the middle of it"
    assert row.expires_at is None or row.expires_at > now, "sent after its time"
    assert row.not_before is None or row.not_before <= now, "sent before its time"


def mark(row: Any, rows: Sequence[Any], *, holds: Sequence[Any], suppressed: set[str]) -> None:
    """As it is marked: nothing that an operator or a newer message says stands against it."""
    assert row.recipient_key not in suppressed, "marked although suppressed"
    for hold in holds:
        covers = hold.scope == "everything" or (hold.scope, hold.value) == ("template", row.template_key)
        assert not covers, f"marked under a hold of {hold.scope} {hold.value}"
    newer = [one for one in rows if replaces(one, row)]
    assert not newer, "marked although a newer message took its place"


def replaces(newer: Any, row: Any) -> bool:
    same = row.supersede_key is not None and newer.supersede_key == row.supersede_key
    later = (newer.created_at, newer.id) > (row.created_at, row.id)
    return bool(
        same
        and later
        and newer.idempotency_key != row.idempotency_key
        and newer.part <= row.part
        and newer.state not in VOID
    )
