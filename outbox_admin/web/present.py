"""Labels: how a row's values read on a page. Addresses are masked here; nothing is marked safe."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import assert_never

from outbox_admin.core import catalogue
from outbox_admin.core.cause import Cause, Kind
from outbox_admin.core.lifecycle import State
from outbox_admin.core.words import plural, span
from outbox_admin.db.reads.rows import MessageRow

SIMULATED = "simulated"


@dataclass(frozen=True, slots=True)
class Moment:
    """``iso`` for machines, ``text`` in UTC for the eye, ``ago`` beside it."""

    iso: str
    text: str
    ago: str


@dataclass(frozen=True, slots=True)
class Badge:
    """A state as word, shape and colour together: none of them alone has to be seen."""

    word: str
    icon: str
    tone: str


@dataclass(frozen=True, slots=True)
class CauseView:
    """The only rendering of an error. ``hint`` and ``ref`` are None for those who may not see them."""

    title: str
    code: str
    phase: str
    cure: str
    hint: str | None
    ref: str | None


@dataclass(frozen=True, slots=True)
class RowView:
    """One line of a list of messages."""

    id: str
    short: str
    key: str
    badge: Badge
    note: str
    recipient: str
    template: str
    attempts: str
    when: Moment | None
    when_word: str
    cause: str
    failed_at: Moment | None
    payload: str
    created: Moment
    retryable: bool
    doubtful: bool


def moment(time: datetime, *, now: datetime) -> Moment:
    utc = time.astimezone(UTC)
    day = "" if utc.date() == now.date() else utc.strftime("%d %b " if utc.year == now.year else "%d %b %Y ")
    away = (now - utc).total_seconds()
    ago = f"{span(away)} ago" if away >= 0 else f"in {span(-away)}"
    return Moment(utc.isoformat(timespec="seconds"), day + utc.strftime("%H:%M:%S"), ago)


def maybe(time: datetime | None, *, now: datetime) -> Moment | None:
    return None if time is None else moment(time, now=now)


def mask(address: str) -> str:
    """``j•••@example.com``. What has no at sign is hidden whole."""
    local, at, domain = address.rpartition("@")
    if not at:
        return "erased" if address.startswith("erased:") else "•••"
    first = local[:1] if len(local) > 2 and local[0].isalnum() else ""
    return f"{first}•••@{domain}"


def badge(row: MessageRow, *, now: datetime) -> Badge:
    match row.state:
        case State.PENDING:
            return _waiting(row, now=now)
        case State.SENDING:
            return Badge("Sending", "play", "sending")
        case State.SENT:
            return Badge("Simulated" if row.route == SIMULATED else "Sent", "check", "sent")
        case State.REJECTED:
            return Badge("Rejected", "octagon", "rejected")
        case State.FAILED:
            return Badge("Failed", "triangle", "failed")
        case State.UNCERTAIN:
            return Badge("Uncertain", "question", "retry")
        case State.EXPIRED:
            return Badge("Expired", "clock", "pending")
        case State.SUPERSEDED:
            return Badge("Superseded", "skip", "pending")
        case State.CANCELLED:
            suppressed = row.cause is not None and row.cause.kind is Kind.SUPPRESSED
            return (
                Badge("Suppressed", "stop", "pending")
                if suppressed
                else Badge("Cancelled", "dash", "pending")
            )
    assert_never(row.state)


def _waiting(row: MessageRow, *, now: datetime) -> Badge:
    if row.held not in (None, "alone"):
        return Badge("Held", "pause", "retry")
    if row.tries:
        return Badge("Waiting to retry", "again", "retry")
    if row.due_at > now:
        return Badge("Scheduled", "clock", "pending")
    return Badge("Pending", "ring", "pending")


_HELD = {"hold": "by a hold", "key": "for a key", "format": "newer format", "unreadable": "unreadable"}


def _note(row: MessageRow) -> str:
    """What a list says under the badge."""
    if row.state is State.SENT:
        return "possible double" if row.possible_double else ""
    if row.doubtful:
        return "may have arrived"
    return _HELD.get((row.held or "").partition(":")[0], "") if row.state is State.PENDING else ""


def attempts(row: MessageRow) -> str:
    """``2 of 8 · 7 tries``: tries are shown where they differ."""
    counted = f"{row.attempts} of {row.max_attempts}"
    return counted if row.tries == row.attempts else f"{counted} · {plural(row.tries, 'try', 'tries')}"


def cause_view(cause: Cause | None, *, privileged: bool) -> CauseView | None:
    if cause is None:
        return None
    codes = " ".join(str(code) for code in (cause.code, cause.enhanced) if code)
    return CauseView(
        catalogue.headline(cause),
        codes,
        catalogue.PHASES[cause.phase],
        catalogue.cure(cause),
        cause.hint if privileged else None,
        cause.ref if privileged else None,
    )


def row_view(row: MessageRow, *, now: datetime, keep_payload: timedelta) -> RowView:
    word, when = _when(row)
    return RowView(
        id=str(row.id),
        short=row.id.hex[-8:],
        key=row.idempotency_key + (f" /{row.part}" if row.part else ""),
        badge=badge(row, now=now),
        note=_note(row),
        recipient=mask(row.recipient),
        template=row.template_key,
        attempts=attempts(row),
        when=maybe(when, now=now),
        when_word=word,
        cause=catalogue.words(row.cause) if row.cause else "",
        failed_at=maybe(row.finished_at, now=now),
        payload=payload(row, now=now, keep=keep_payload),
        created=moment(row.created_at, now=now),
        retryable=row.retryable,
        doubtful=row.doubtful,
    )


def _when(row: MessageRow) -> tuple[str, datetime | None]:
    if row.state is State.PENDING:
        return "due", row.due_at
    if row.state is State.SENDING:
        return "lease until", row.lease_until
    return "", row.sent_at or row.finished_at


def payload(row: MessageRow, *, now: datetime, keep: timedelta) -> str:
    """Whether the sealed message is still there, and until when."""
    if not row.has_payload:
        return "cleared"
    if row.finished_at is None:
        return "kept"
    until = row.finished_at + keep
    return f"until {until.astimezone(UTC):%d %b %Y}" if until > now else "being cleared"


def no_retry(row: MessageRow) -> str:
    """Why there is no Retry button, in a sentence; empty where there is one."""
    match row.state:
        case State.FAILED | State.UNCERTAIN:
            return (
                "" if row.has_payload else "Its payload was cleared after the retention period; send it anew."
            )
        case State.REJECTED:
            return "It was refused for good and its payload cleared; send it anew from the application."
        case State.SENT:
            return "It is sent; a second copy would go out."
        case State.PENDING:
            return "It is waiting to be sent already."
        case State.SENDING:
            return "A worker is sending it right now."
        case State.EXPIRED | State.CANCELLED | State.SUPERSEDED:
            return f"It is {row.state.value}; its payload was cleared."
    assert_never(row.state)
