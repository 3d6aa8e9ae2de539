"""Where one message stands, in the words of whoever is on call: what is, since when, what to press."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from outbox_admin.core.cause import Kind
from outbox_admin.core.lifecycle import State
from outbox_admin.core.words import span
from outbox_admin.db.reads.rows import MessageDetail


@dataclass(frozen=True, slots=True)
class Situation:
    """``press`` is what to do about it, empty where nothing is needed. ``tone`` and ``icon`` repeat the words.

    ``towards``: the page where it goes on, ``overview`` or ``newer``; empty for none.
    """

    tone: str
    icon: str
    sentence: str
    press: str = ""
    towards: str = ""


#: What the last try met is no news here: the page says why it ended, the timeline the rest.
ENDED = frozenset({State.SENT, State.EXPIRED, State.CANCELLED, State.SUPERSEDED})


def situation(message: MessageDetail, *, now: datetime, settled: bool = False) -> Situation | None:
    """None where state and cause say it all already. ``settled``: somebody said that it arrived."""
    match message.state:
        case State.PENDING:
            return _pending(message, now=now)
        case State.SENDING | State.REJECTED:
            return None
        case State.SENT:
            return _SETTLED if settled else _sent(message)
        case State.FAILED:
            return _failed(message, now=now)
        case State.UNCERTAIN:
            return _uncertain(message, now=now)
        case State.EXPIRED:
            return _expired(message)
        case State.CANCELLED:
            return _cancelled(message)
        case State.SUPERSEDED:
            return Situation(
                "pending",
                "skip",
                "A newer message with the same supersede key took its place; this one is never sent.",
                towards="newer",
            )
    assert_never(message.state)


def _pending(message: MessageDetail, *, now: datetime) -> Situation | None:
    if message.held is not None:
        return None  # said with its reason
    wait = (message.due_at - now).total_seconds()
    if wait > 0 and not message.tries and message.not_before is not None:
        sentence = f"Scheduled by the application: it goes out in {span(wait)}, not before."
        return Situation("pending", "clock", sentence, "Nothing to do; cancel it if it must not go out.")
    if wait > 0:
        return Situation("pending", "clock", f"It is tried again by itself in {span(wait)}.")
    if wait < -LATE:
        sentence = f"Due for {span(-wait)} and no worker has taken it yet."
        return Situation("retry", "alert", sentence, "Something keeps mail from going out.", "overview")
    return None


#: Seconds: by then some worker has looked, unless something is wrong.
LATE = 60.0


_SETTLED = Situation(
    "sent", "check", "Settled: somebody said that it arrived. The relay's own answer was never seen."
)


def _sent(message: MessageDetail) -> Situation | None:
    if not message.possible_double:
        return None
    return Situation(
        "retry",
        "question",
        "Possible double: an earlier try ended in doubt, so the recipient may have two copies of it.",
        "Nothing can be taken back; both copies carry the same Message-ID.",
    )


def _failed(message: MessageDetail, *, now: datetime) -> Situation:
    since = span((now - (message.finished_at or now)).total_seconds())
    gave_up = message.cause is not None and message.cause.kind is Kind.GAVE_UP
    why = "it waited too long and was given up" if gave_up else "its attempts are used up"
    doubt = " One of them ended in doubt: it may have been delivered." if message.maybe_delivered else ""
    if not message.has_payload:
        press = "Its payload is gone: send it anew from the application, or dismiss it."
    elif message.maybe_delivered:
        press = "Look for its Message-ID in the relay's log; retry only if it is not there."
    else:
        press = "Cure the cause, then press Retry."
    return Situation(
        "failed", "triangle", f"It failed {since} ago: {why}, and nothing is tried any more.{doubt}", press
    )


def _uncertain(message: MessageDetail, *, now: datetime) -> Situation:
    since = span((now - (message.finished_at or now)).total_seconds())
    press = "Look for its Message-ID in the relay's log, then say what became of it."
    if not message.has_payload:
        press += " Its payload is gone, so it cannot be sent again from here."
    copied = message.cause is not None and message.cause.kind is Kind.COPIED
    why = (
        "the database was copied, and its original may have sent it"
        if copied
        else "the hand-over began and its end is not known"
    )
    sentence = f"In doubt for {since}: {why}. It may have been delivered; it is not sent again until somebody decides."
    return Situation("retry", "question", sentence, press)


def _expired(message: MessageDetail) -> Situation:
    return Situation(
        "pending",
        "clock",
        "Its time passed before it could be sent, so it was not sent; its payload is cleared."
        + (" An earlier try may have been delivered." if message.maybe_delivered else ""),
        "Send it anew from the application if it is still wanted.",
    )


def _cancelled(message: MessageDetail) -> Situation:
    if message.cause is not None and message.cause.kind is Kind.SUPPRESSED:
        return Situation(
            "pending",
            "stop",
            "The recipient is on the suppression list, so it was not sent; its payload is cleared.",
            "An admin can take the address off the list; then send it anew from the application.",
        )
    doubt = " An earlier try may have been delivered." if message.maybe_delivered else ""
    return Situation("pending", "dash", f"It was withdrawn; its payload is cleared.{doubt}")
