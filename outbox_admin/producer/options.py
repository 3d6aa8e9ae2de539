"""What may be said beside a message, judged before anything is written."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypedDict

from outbox_admin.core.lifecycle import PRIORITIES, OnUnknown
from outbox_admin.errors import MessageRefused

MAX_TEXT = 200  #: characters of a key or a name
MAX_ATTEMPTS = 100
_ON_UNKNOWN = frozenset(OnUnknown)


class OptionValues(TypedDict, total=False):
    """The keyword arguments of :meth:`Outbox.enqueue` and :class:`Entry`; their meaning is told at :class:`Options`."""

    template_key: str
    priority: int
    not_before: datetime | None
    expires_at: datetime | None
    supersede_key: str | None
    on_unknown: str
    max_attempts: int | None
    correlation_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``priority``: 0 urgent, 1 normal, 2 bulk. Times are aware. ``max_attempts`` None: the outbox's own.

    ``on_unknown``: ``resend`` sends again when nobody can tell whether the relay took the message, ``hold`` asks.
    ``supersede_key``: waits only until a later message with the same key takes its place (all rows of it, whoever the
    recipients are).
    """

    template_key: str = ""
    priority: int = 1
    not_before: datetime | None = None
    expires_at: datetime | None = None
    supersede_key: str | None = None
    on_unknown: str = OnUnknown.RESEND
    max_attempts: int | None = None
    correlation_id: str | None = None

    def check(self) -> None:
        """Raises :class:`MessageRefused` naming the option."""
        if self.template_key != "":
            check_text(self.template_key, field="template_key")
        for name in ("supersede_key", "correlation_id"):
            if getattr(self, name) is not None:
                check_text(getattr(self, name), field=name)
        _check_number(self.priority, PRIORITIES, field="priority")
        if self.max_attempts is not None:
            _check_number(self.max_attempts, range(1, MAX_ATTEMPTS + 1), field="max_attempts")
        if self.on_unknown not in _ON_UNKNOWN:
            raise MessageRefused("on_unknown", "is 'resend' or 'hold'")
        self._check_times()

    def _check_times(self) -> None:
        _check_time(self.not_before, field="not_before")
        _check_time(self.expires_at, field="expires_at")
        if self.not_before and self.expires_at and self.not_before >= self.expires_at:
            raise MessageRefused("not_before", "is not before expires_at: the message could never be sent")


def check_text(text: object, *, field: str) -> None:
    """1 to 200 characters without control characters. Raises :class:`MessageRefused`, which never repeats the text."""
    if not isinstance(text, str):
        raise MessageRefused(field, "is a str")
    if not 1 <= len(text) <= MAX_TEXT:
        raise MessageRefused(field, f"has 1 to {MAX_TEXT} characters, not {len(text)}")
    if not text.isprintable() and any(unicodedata.category(one) in ("Cc", "Cs") for one in text):
        raise MessageRefused(field, "has no control characters and no half surrogate pairs")


def _check_number(number: object, allowed: range, *, field: str) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number not in allowed:
        raise MessageRefused(field, f"is a number from {allowed.start} to {allowed.stop - 1}")


def _check_time(moment: object, *, field: str) -> None:
    if moment is None:
        return
    if not isinstance(moment, datetime):
        raise MessageRefused(field, "is a datetime")
    if moment.utcoffset() is None:
        raise MessageRefused(field, "has no time zone; write datetime.now(UTC) or .astimezone()")
    try:
        moment.astimezone(UTC)
    except OverflowError:
        raise MessageRefused(field, "is outside the calendar") from None
