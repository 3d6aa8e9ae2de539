"""A fault of the channel that hides in the replies to single messages (E22): many in a row that end alike.

A relay that refuses us says so to each message as if it were that message's fault. While a route is on trial the
refusals need not be equal: the channel is under suspicion already, and a relay may word each of them differently. Pure
values.
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
    """Deferrals of one route in a row: each message with the number of the try that it cost. ``mark``: the newest's."""

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
    if not _may_be_the_channels(cause.phase, cause.code, cause.enhanced):
        return None
    return Mark(cause.phase, cause.code, cause.enhanced)


def is_passed_over(cause: Cause | None) -> bool:
    """On trial: a refusal that tells nothing of the channel, so that it neither counts nor ends a streak."""
    if cause is None or cause.code is None or cause.phase not in _TALK:
        return False
    return not _may_be_the_channels(cause.phase, cause.code, cause.enhanced)


def _may_be_the_channels(phase: Phase, code: int, enhanced: str | None) -> bool:
    """Not what speaks of one recipient, nor what is put off at all times.

    A full mailbox is told by 552 at RCPT only; later it is the relay that has no room.
    """
    if is_temporary(code) or (phase is Phase.RCPT and is_policy(enhanced)):
        return True
    is_full = code == EXCEEDED_STORAGE and phase is Phase.RCPT
    return not (code == BAD_SEQUENCE or is_full or is_about_recipient(enhanced))


def lengthened(
    streak: Streak | None, mark: Mark, message: UUID, number: int, *, on_trial: bool = False
) -> Streak:
    """One more; another mark begins anew, unless on trial. A try that is told twice counts once."""
    if streak is None or (streak.mark != mark and not on_trial):
        return Streak(mark, ((message, number),))
    if (message, number) in streak.tries:
        return streak
    return Streak(mark, (*streak.tries, (message, number)))
