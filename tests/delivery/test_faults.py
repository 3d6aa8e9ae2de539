"""Our own faults in the log: a type and a place, never a text that may hold an address."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import Change, State
from outbox_admin.delivery.faults import describe
from outbox_admin.delivery.ledger import story


def test_an_exception_is_told_by_its_type_and_place() -> None:
    try:
        raise ValueError("jane@example.com")
    except ValueError as error:
        told = describe(error)
    assert told.startswith("ValueError at test_faults.py:")
    assert "jane" not in told


def test_a_database_error_is_told_by_its_state(engine: sa.Engine) -> None:
    with pytest.raises(sa.exc.DBAPIError) as caught, engine.begin() as db:
        db.execute(sa.text("SELECT :address FROM nowhere"), {"address": "jane@example.com"})
    state = {"sqlite": "SQLITE_ERROR", "postgresql": "42P01"}[engine.dialect.name]
    assert describe(caught.value).endswith(state)
    assert "jane" not in describe(caught.value)


def test_a_story_has_state_phase_kind_and_code() -> None:
    cause = Cause(Phase.RCPT, Kind.RECIPIENT_REJECTED, 550, "5.1.1", "user unknown", "0123456789abcdef")
    assert story(Change(State.REJECTED, "rejected", cause=cause)) == "rejected (rcpt recipient_rejected 550)"
    assert story(Change(State.SENT, "accepted")) == "sent"
    late = Cause(Phase.CONNECT, Kind.TIMEOUT)
    assert story(Change(State.PENDING, "channel_fault", cause=late)) == "pending (connect timeout)"
