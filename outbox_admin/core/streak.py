"""A fault of the channel that hides in the replies to single messages (E22): many in a row that end alike.

A relay that refuses us says so to each message as if it were that message's fault. Pure values.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from outbox_admin.core.cause import Cause, Phase
from outbox_admin.core.replycode import (
    BAD_SEQUENCE,
    EXCEEDED_STORAGE,
    is_about_recipient,
    is_policy,
    is_temporary,
)

#: So many different messages in a row that end alike were the channel's fault.
LENGTH = 5

_TALK = frozenset({Phase.MAIL, Phase.RCPT, Phase.DATA, Phase.DOT})


@dataclass(frozen=True, slots=True)
class Mark:
    """What has to be equal."""

    phase: Phase
    code: int
    enhanced: str | None


@dataclass(frozen=True, slots=True)
class Streak:
    """Deferrals of one route in a row with the same mark: each message with the number of the try that it cost."""

    mark: Mark
    tries: tuple[tuple[UUID, int], ...]

    @property
    def is_full(self) -> bool:
        return len({message for message, _ in self.tries}) >= LENGTH


def mark_of(cause: Cause | None) -> Mark | None:
    """For a deferral that may have been the channel's: 4yz from MAIL on, 5.7.x at RCPT, a refusal met on trial.

    Without the last a relay that goes on refusing everybody would use up all attempts of all messages, one trial after
    the other.
    """
    if cause is None or cause.code is None or cause.phase not in _TALK:
        return None
    hidden = cause.phase is Phase.RCPT and is_policy(cause.enhanced)
    if not is_temporary(cause.code) and not hidden and _is_its_own(cause.code, cause.enhanced):
        return None
    return Mark(cause.phase, cause.code, cause.enhanced)


def _is_its_own(code: int, enhanced: str | None) -> bool:
    """Refusals that speak of one recipient, or that are put off at all times: they say nothing of the channel."""
    return code in (BAD_SEQUENCE, EXCEEDED_STORAGE) or is_about_recipient(enhanced)


def lengthened(streak: Streak | None, mark: Mark, message: UUID, number: int) -> Streak:
    """One more; another mark begins anew. A try that is told twice counts once."""
    if streak is None or streak.mark != mark:
        return Streak(mark, ((message, number),))
    if (message, number) in streak.tries:
        return streak
    return Streak(mark, (*streak.tries, (message, number)))
