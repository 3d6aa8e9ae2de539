"""The values of one message's page. Recipients are masked unless they were asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from flask import url_for

from outbox_admin.core.hold import MAX_TEMPLATE, STAMP
from outbox_admin.core.lifecycle import LIVE, OnUnknown, State
from outbox_admin.core.words import span
from outbox_admin.db.reads import message as reads
from outbox_admin.db.reads.rows import MessageDetail
from outbox_admin.web.held import held_words, key_note
from outbox_admin.web.present import (
    Badge,
    CauseView,
    Moment,
    attempts,
    badge,
    cause_view,
    mask,
    maybe,
    moment,
    no_retry,
    payload,
)
from outbox_admin.web.situation import ENDED, Situation, situation
from outbox_admin.web.timeline import Event, read_history, timeline
from outbox_admin.web.visit import Role, Visit


@dataclass(frozen=True, slots=True)
class Sibling:
    part: int
    url: str
    state: str


@dataclass(frozen=True, slots=True)
class Times:
    """When what happened, or will. ``finished_word`` says what the end was."""

    created: Moment
    not_before: Moment | None
    due: Moment | None
    handover: Moment | None
    finished: Moment | None
    finished_word: str
    expires: Moment | None


@dataclass(frozen=True, slots=True)
class Choices:
    """What can be done. ``no_retry``: why there is no Retry. ``settles``: an operator says what became of it."""

    no_retry: str
    retry_plain: bool
    settles: bool
    cancellable: bool
    newer_url: str


@dataclass(frozen=True, slots=True)
class Detail:
    """What the page shows. ``provider_id`` is None for those who may not see it."""

    id: str
    badge: Badge
    situation: Situation | None
    choices: Choices
    times: Times
    recipient: str
    revealed: bool
    template: str
    key: str
    attempts: str
    retries: int
    lease: str
    route: str
    provider_id: str | None
    message_id: str
    priority: str
    on_unknown: str
    key_id: str
    key_note: str
    payload: str
    size: str
    held: str
    by_hold: bool
    holdable: bool
    doubt: str
    cause: CauseView | None
    live: bool
    events: tuple[Event, ...]
    siblings: tuple[Sibling, ...]
    correlation_id: str
    supersede_key: str


def detail(asking: Visit, message: MessageDetail, *, revealed: bool = False) -> Detail:
    now, privileged = asking.now, asking.may(Role.OPERATOR)
    history = read_history(asking, message)
    return Detail(
        id=str(message.id),
        badge=badge(message, now=now),
        situation=situation(message, now=now, settled=history.settled),
        choices=_choices(asking, message),
        times=_times(message, now=now),
        recipient=message.recipient if revealed else mask(message.recipient),
        revealed=revealed,
        template=message.template_key,
        key=message.idempotency_key,
        attempts=attempts(message),
        retries=message.retries,
        lease=_lease(message, now=now),
        route=message.route or "",
        provider_id=message.provider_id if privileged else None,
        message_id=message.message_id or "",
        priority={0: "urgent", 1: "normal", 2: "bulk"}.get(message.priority, str(message.priority)),
        on_unknown=_ON_UNKNOWN.get(message.on_unknown, message.on_unknown),
        key_id=message.key_id or "",
        key_note=key_note(asking, message),
        payload=payload(message, now=now, keep=asking.console.settings.keep_payload),
        size=_size(message),
        held=held_words(asking, message),
        by_hold=(message.held or "").startswith(STAMP),
        holdable=message.state is State.PENDING and len(message.template_key) <= MAX_TEMPLATE,
        doubt=_doubt(message),
        cause=cause_view(None if message.state in ENDED else message.cause, privileged=privileged),
        live=message.state in LIVE,
        events=timeline(message, history, now=now, privileged=privileged),
        siblings=_siblings(asking, message),
        correlation_id=message.correlation_id or "",
        supersede_key=message.supersede_key or "",
    )


def _doubt(message: MessageDetail) -> str:
    """The badge beside the state's own."""
    if message.state is State.SENT:
        return "Possible double" if message.possible_double else ""
    return "May have been delivered" if message.doubtful else ""


def _choices(asking: Visit, message: MessageDetail) -> Choices:
    return Choices(
        no_retry=no_retry(message),
        retry_plain=message.retryable and not message.doubtful,
        settles=message.state is State.UNCERTAIN,
        cancellable=message.state in (State.PENDING, State.FAILED),
        newer_url=_newer(asking, message),
    )


def _times(message: MessageDetail, *, now: datetime) -> Times:
    return Times(
        created=moment(message.created_at, now=now),
        not_before=maybe(message.not_before, now=now),
        due=maybe(message.due_at if message.state is State.PENDING else None, now=now),
        handover=maybe(message.handover_at, now=now),
        finished=maybe(message.sent_at or message.finished_at, now=now),
        finished_word=_FINISHED_WORDS.get(message.state, ""),
        expires=maybe(message.expires_at, now=now),
    )


_FINISHED_WORDS = {
    State.SENT: "Sent",
    State.FAILED: "Failed",
    State.REJECTED: "Rejected",
    State.UNCERTAIN: "Uncertain since",
    State.EXPIRED: "Expired",
    State.CANCELLED: "Cancelled",
    State.SUPERSEDED: "Superseded",
}
_ON_UNKNOWN = {
    OnUnknown.RESEND.value: "sent again (a second copy is possible)",
    OnUnknown.HOLD.value: "left to an operator (never a second copy)",
}


def _newer(asking: Visit, message: MessageDetail) -> str:
    """The page of what took its place; empty when nothing did, or that is purged."""
    newer = reads.newer(asking.db, message) if message.state is State.SUPERSEDED else None
    return url_for("outbox.message.show", row_id=newer) if newer is not None else ""


def _lease(message: MessageDetail, *, now: datetime) -> str:
    if message.state is not State.SENDING or message.lease_until is None:
        return ""
    left = (message.lease_until - now).total_seconds()
    end = f"for another {span(left)}" if left > 0 else f"which ended {span(-left)} ago; it is taken back"
    return f"held by {message.claimed_by or 'a worker'} {end}"


def _size(message: MessageDetail) -> str:
    if not message.has_payload or not message.payload_size:
        return ""
    return f"{message.payload_size / 1024:,.1f} KiB sealed"


def _siblings(asking: Visit, message: MessageDetail) -> tuple[Sibling, ...]:
    return tuple(
        Sibling(part, url_for("outbox.message.show", row_id=row_id), state)
        for part, row_id, state in reads.siblings(asking.db, message)
    )
