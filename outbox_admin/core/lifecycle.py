"""The states of a message, what a relay can make of it, and what follows. Pure: no clock, no dice, no database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from outbox_admin.core.backoff import Backoff
from outbox_admin.core.cause import Cause, Kind, Phase


class State(StrEnum):
    """The life of one row. Every change between two of them is one conditional UPDATE."""

    PENDING = "pending"  #: waits for its due time, or for a worker
    SENDING = "sending"  #: claimed by a worker until its lease ends
    SENT = "sent"  #: the relay took responsibility; final
    REJECTED = "rejected"  #: refused for good; payload cleared
    FAILED = "failed"  #: attempts used up, or given up; payload kept until retention
    UNCERTAIN = "uncertain"  #: may have been delivered; an operator decides; payload kept until retention
    EXPIRED = "expired"  #: its time passed before it could be sent
    CANCELLED = "cancelled"  #: withdrawn by an operator or the producer, or suppressed
    SUPERSEDED = "superseded"  #: a newer message with the same supersede key took its place


WITH_PAYLOAD = frozenset({State.PENDING, State.SENDING, State.FAILED, State.UNCERTAIN})
LIVE = frozenset({State.PENDING, State.SENDING})
DEAD = frozenset({State.FAILED, State.REJECTED, State.UNCERTAIN})


#: Urgent, normal, bulk; lower first (E9).
PRIORITIES = range(3)


class OnUnknown(StrEnum):
    """What the producer wants when nobody can tell whether the relay took the message."""

    RESEND = "resend"  #: at least once: send again, marked ``maybe_delivered``
    HOLD = "hold"  #: at most once: an operator decides


@dataclass(frozen=True, slots=True)
class Accepted:
    """The relay answered 2yz to the final dot. ``provider_id`` is cleaned, or None."""

    provider_id: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """This message is refused for good."""

    cause: Cause
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Deferred:
    """This message may succeed later."""

    cause: Cause
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Undeliverable:
    """This message cannot be sent as things are, yet an operator can cure it: straight to ``failed``, payload kept.

    A broken template, a message larger than the relay's SIZE.
    """

    cause: Cause
    raw: str = ""


@dataclass(frozen=True, slots=True)
class ChannelFault:
    """The way to the relay is broken; the message was not judged."""

    cause: Cause
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The message may have been taken: the connection ended after its last octets began to leave."""

    cause: Cause
    raw: str = ""


Outcome = Accepted | Rejected | Deferred | Undeliverable | ChannelFault | Unknown


@dataclass(frozen=True, slots=True)
class Policy:
    """``counts_channel_faults``: plain counting (``OUTBOX_BREAKER=off``)."""

    backoff: Backoff
    counts_channel_faults: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """What :func:`decide` must know of the row: the attempt that its claim counted (from 1) and its own rules."""

    attempt: int
    max_attempts: int
    on_unknown: OnUnknown = OnUnknown.RESEND
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What to write for one claimed row.

    ``outcome`` is the word for the attempt's history: accepted, rejected, deferred, undeliverable, channel_fault,
    unknown. ``due_at`` None keeps the row's due time. ``counted`` False gives the attempt back.
    ``maybe_delivered`` only ever adds the mark.
    """

    state: State
    outcome: str
    due_at: datetime | None = None
    counted: bool = True
    maybe_delivered: bool = False
    provider_id: str | None = None
    cause: Cause | None = None
    raw: str = ""


def decide(outcome: Outcome, row: Standing, *, now: datetime, roll: float, policy: Policy) -> Change:
    """What becomes of a claimed row after ``outcome``; ``roll`` in [0, 1) is the jitter."""
    match outcome:
        case Accepted(provider_id):
            return Change(State.SENT, "accepted", provider_id=provider_id)
        case Rejected(cause, raw):
            return Change(State.REJECTED, "rejected", cause=cause, raw=raw)
        case Undeliverable(cause, raw):
            return Change(State.FAILED, "undeliverable", cause=cause, raw=raw)
        case Deferred(cause, raw):
            return _later("deferred", cause, raw, row, now=now, roll=roll, policy=policy)
        case ChannelFault(cause, raw):
            if policy.counts_channel_faults:
                return _later("channel_fault", cause, raw, row, now=now, roll=roll, policy=policy)
            return _give_back(cause, raw, row, now=now, roll=roll, policy=policy)
        case Unknown(cause, raw):
            return _in_doubt(cause, raw, row, now=now, roll=roll, policy=policy)
    assert_never(outcome)


def _later(
    outcome: str,
    cause: Cause,
    raw: str,
    row: Standing,
    *,
    now: datetime,
    roll: float,
    policy: Policy,
) -> Change:
    if row.attempt >= row.max_attempts:
        return Change(State.FAILED, outcome, cause=cause, raw=raw)
    due = now + timedelta(seconds=policy.backoff.delay(row.attempt, roll=roll))
    if row.expires_at is not None and due >= row.expires_at:
        return Change(
            State.EXPIRED,
            outcome,
            cause=Cause(cause.phase, Kind.EXPIRED, cause.code, cause.enhanced),
            raw=raw,
        )
    return Change(State.PENDING, outcome, due_at=due, cause=cause, raw=raw)


def _give_back(
    cause: Cause, raw: str, row: Standing, *, now: datetime, roll: float, policy: Policy
) -> Change:
    """Before MAIL no message is to blame: its due time stays. From MAIL on it goes behind the others."""
    behind = cause.phase in (Phase.MAIL, Phase.RCPT, Phase.DATA, Phase.CONTENT, Phase.DOT)
    due = now + timedelta(seconds=policy.backoff.delay(row.attempt, roll=roll)) if behind else None
    return Change(State.PENDING, "channel_fault", due_at=due, counted=False, cause=cause, raw=raw)


def _in_doubt(cause: Cause, raw: str, row: Standing, *, now: datetime, roll: float, policy: Policy) -> Change:
    if row.on_unknown is OnUnknown.HOLD:
        return Change(State.UNCERTAIN, "unknown", maybe_delivered=True, cause=cause, raw=raw)
    later = _later("unknown", cause, raw, row, now=now, roll=roll, policy=policy)
    return Change(
        later.state,
        "unknown",
        due_at=later.due_at,
        maybe_delivered=True,
        cause=later.cause,
        raw=raw,
    )
