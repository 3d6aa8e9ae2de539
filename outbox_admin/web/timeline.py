"""What happened to one message, newest first: tries, the acceptance, people's deeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from outbox_admin.core import catalogue
from outbox_admin.core.words import span
from outbox_admin.db.reads import message as reads
from outbox_admin.db.reads.message import Deed, Try
from outbox_admin.db.reads.rows import MessageDetail
from outbox_admin.web.present import SIMULATED, CauseView, Moment, cause_view, mask, moment
from outbox_admin.web.visit import Visit


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the timeline, newest first."""

    anchor: str
    title: str
    icon: str
    tone: str
    at: Moment
    notes: tuple[str, ...] = ()
    cause: CauseView | None = None


@dataclass(frozen=True, slots=True)
class History:
    """``settled``: somebody said that the message arrived, and nobody saw the relay accept it."""

    tries: Sequence[Try]
    deeds: Sequence[Deed]

    @property
    def settled(self) -> bool:
        return any((deed.action, deed.result) == ("settle", "arrived") for deed in self.deeds)


def read_history(asking: Visit, message: MessageDetail) -> History:
    return History(reads.tries(asking.db, message.id), reads.deeds(asking.db, message.id))


def timeline(
    message: MessageDetail, history: History, *, now: datetime, privileged: bool
) -> tuple[Event, ...]:
    events: list[tuple[datetime, Event]] = []
    told = history.settled or any(one.outcome == "accepted" for one in history.tries)
    if message.sent_at is not None and not told:
        events.append((message.sent_at, _sent(message, now=now)))
    events += [(one.ended_at, _tried(one, now=now, privileged=privileged)) for one in history.tries]
    events += [(deed.at, _deed(deed, now=now)) for deed in history.deeds]
    events.sort(key=lambda pair: pair[0], reverse=True)
    created = Event("created", "Queued", "ring", "pending", moment(message.created_at, now=now))
    return (*(event for _, event in events), created)


def _sent(message: MessageDetail, *, now: datetime) -> Event:
    simulated = message.route == SIMULATED
    title = "Simulated: no relay is configured" if simulated else "Accepted by the relay"
    notes = () if simulated or not message.route else (f"route {message.route}",)
    at = message.sent_at or message.created_at
    return Event(f"attempt-{message.tries}", title, "check", "sent", moment(at, now=now), notes)


_ICONS = {"rejected": "triangle", "undeliverable": "triangle", "unknown": "question", "accepted": "check"}
_TONES = {"rejected": "rejected", "undeliverable": "failed", "unknown": "retry", "accepted": "sent"}


def _tried(one: Try, *, now: datetime, privileged: bool) -> Event:
    notes = [f"try {one.number}" if one.counted else f"try {one.number}, not counted"]
    if one.started_at is not None:
        notes.append(f"took {(one.ended_at - one.started_at).total_seconds():.1f} s")
    notes += [f"by {one.worker}"] if one.worker else []
    notes += [f"route {one.route}"] if one.route else []
    notes += [f"redirected to {mask(one.redirected_to)}"] if one.redirected_to else []
    if one.next_due_at is not None:
        notes.append(f"next after {span((one.next_due_at - one.ended_at).total_seconds())}")
    return Event(
        f"attempt-{one.number}",
        catalogue.outcome(one.outcome),
        _ICONS.get(one.outcome, "again"),
        _TONES.get(one.outcome, "retry"),
        moment(one.ended_at, now=now),
        tuple(notes),
        cause_view(one.cause, privileged=privileged),
    )


_SETTLED = {
    "arrived": "Settled as arrived",
    "resend": "Settled: sent again",
    "gave_up": "Settled: given up",
}

_DEEDS = {
    "retry": "Retried",
    "settle": "Settling tried",
    "cancel": "Cancelled",
    "reveal": "Recipient revealed",
    "explained": "Detail opened",
}


def _deed(deed: Deed, *, now: datetime) -> Event:
    settled = _SETTLED.get(deed.result) if deed.action == "settle" else None
    title = settled or _DEEDS.get(deed.action, deed.action)
    refused = (
        () if settled or deed.result == "done" else (f"nothing changed: {deed.result.replace('_', ' ')}",)
    )
    return Event("", f"{title} by {deed.actor}", "person", "pending", moment(deed.at, now=now), refused)
