"""What follows from each outcome."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from outbox_admin.core.backoff import Backoff
from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import (
    Accepted,
    ChannelFault,
    Deferred,
    OnUnknown,
    Outcome,
    Policy,
    Rejected,
    Standing,
    State,
    Undeliverable,
    Unknown,
    decide,
)

NOW = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)
CAREFUL = Policy(Backoff())
PLAIN = Policy(Backoff(), counts_channel_faults=True)
BUSY = Cause(Phase.RCPT, Kind.THROTTLED, 451, "4.3.2")
SILENT = Cause(Phase.DOT, Kind.TIMEOUT)
LOGIN = Cause(Phase.AUTH, Kind.AUTH_REJECTED, 535)
SENDER = Cause(Phase.MAIL, Kind.SENDER_REFUSED, 530)
FIRST, LAST = Standing(attempt=1, max_attempts=8), Standing(attempt=8, max_attempts=8)


def test_acceptance_is_sent_with_the_relays_id() -> None:
    change = decide(Accepted("4F2A"), FIRST, now=NOW, roll=0.0, policy=CAREFUL)
    assert (change.state, change.provider_id, change.cause) == (State.SENT, "4F2A", None)


def test_a_refusal_is_final_and_what_an_operator_can_cure_is_kept() -> None:
    refused = decide(Rejected(BUSY, "raw"), FIRST, now=NOW, roll=0.0, policy=CAREFUL)
    broken = decide(Undeliverable(BUSY), FIRST, now=NOW, roll=0.0, policy=CAREFUL)
    assert (refused.state, refused.cause, refused.raw) == (State.REJECTED, BUSY, "raw")
    assert broken.state is State.FAILED


def test_a_deferral_waits_by_the_formula_and_fails_at_the_limit() -> None:
    later = decide(Deferred(BUSY), FIRST, now=NOW, roll=0.5, policy=CAREFUL)
    assert (later.state, later.due_at, later.counted) == (State.PENDING, NOW + timedelta(seconds=11.25), True)
    assert decide(Deferred(BUSY), LAST, now=NOW, roll=0.0, policy=CAREFUL).state is State.FAILED


def test_a_deferral_past_the_expiry_expires_at_once() -> None:
    short = Standing(attempt=1, max_attempts=8, expires_at=NOW + timedelta(seconds=10))
    change = decide(Deferred(BUSY), short, now=NOW, roll=0.0, policy=CAREFUL)
    assert change.state is State.EXPIRED
    assert change.cause == Cause(Phase.RCPT, Kind.EXPIRED, 451, "4.3.2")


@pytest.mark.parametrize(
    ("cause", "due_at"),
    [(LOGIN, None), (SENDER, NOW + timedelta(seconds=10))],
    ids=["before MAIL it stays where it was", "from MAIL on it goes behind the others"],
)
def test_a_channel_fault_gives_the_attempt_back(cause: Cause, due_at: datetime | None) -> None:
    change = decide(ChannelFault(cause), FIRST, now=NOW, roll=0.0, policy=CAREFUL)
    assert (change.state, change.counted, change.due_at) == (State.PENDING, False, due_at)
    assert decide(ChannelFault(cause), LAST, now=NOW, roll=0.0, policy=CAREFUL).state is State.PENDING


def test_plain_counting_counts_a_channel_fault() -> None:
    change = decide(ChannelFault(LOGIN), FIRST, now=NOW, roll=0.0, policy=PLAIN)
    assert (change.state, change.counted, change.due_at) == (State.PENDING, True, NOW + timedelta(seconds=10))
    assert decide(ChannelFault(LOGIN), LAST, now=NOW, roll=0.0, policy=PLAIN).state is State.FAILED


@pytest.mark.parametrize(
    ("row", "state"),
    [
        (FIRST, State.PENDING),
        (LAST, State.FAILED),
        (Standing(attempt=1, max_attempts=8, on_unknown=OnUnknown.HOLD), State.UNCERTAIN),
        (Standing(attempt=8, max_attempts=8, on_unknown=OnUnknown.HOLD), State.UNCERTAIN),
    ],
    ids=["resend", "resend at the limit", "hold", "hold at the limit"],
)
def test_an_unknown_outcome_is_marked_wherever_it_leads(row: Standing, state: State) -> None:
    change = decide(Unknown(SILENT), row, now=NOW, roll=0.0, policy=CAREFUL)
    assert (change.state, change.maybe_delivered, change.outcome) == (state, True, "unknown")


@pytest.mark.parametrize(
    "outcome", [Accepted(), Rejected(BUSY), Deferred(BUSY), Undeliverable(BUSY), ChannelFault(LOGIN)]
)
def test_no_other_outcome_marks_a_message_as_maybe_delivered(outcome: Outcome) -> None:
    assert not decide(outcome, FIRST, now=NOW, roll=0.0, policy=CAREFUL).maybe_delivered
