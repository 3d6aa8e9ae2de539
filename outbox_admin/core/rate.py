"""How many messages may begin in a second, and the slots that keep to it. Pure: moments come in, moments go out.

A slot is a moment before which the content of one message must not begin to leave. It is good for :data:`USABLE`
seconds; what leaves within them may reach the relay a little later still. Over all workers slots are so far apart
that, whenever in those :data:`LATEST` seconds each of them is used, no second at the relay ever sees more than the
limit allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

#: Seconds after its moment within which a slot may be used.
USABLE = 0.1
#: Seconds after a slot's moment at which the relay has seen what was sent in it.
LATEST = 0.15
#: Slots are handed out so many seconds ahead at most.
FURTHEST = 10.0

_A_BIT = 0.001


@dataclass(frozen=True, slots=True)
class Limit:
    """``per_second`` on average, and in no second more than ``per_second + burst``, or 1 where that is less."""

    per_second: float
    burst: int = 0

    @property
    def most(self) -> int:
        """Messages that may begin within any one second."""
        return max(1, int(self.per_second + self.burst))

    @property
    def step(self) -> float:
        """Seconds between two slots in the long run."""
        return 1 / min(self.per_second, (1 - _A_BIT) * self.most / (1 + LATEST))

    @property
    def saved(self) -> float:
        """How many seconds' worth of slots an idle time may leave for a burst."""
        slots = self.most + 1 - _A_BIT - (1 + LATEST) / self.step
        return (min(slots, self.burst + 1) - 1) * self.step


@dataclass(frozen=True, slots=True)
class Slot:
    """``at``: when it may be used. ``next_at``: what is remembered of it, for the one after it."""

    at: datetime
    next_at: datetime


def plausible(limit: Limit, *, next_at: datetime, now: datetime) -> datetime:
    """``next_at``, unless it lies so far ahead that it must come from a clock that was put back since.

    Then every slot of before is used up, or void, within :data:`FURTHEST` seconds.
    """
    furthest = now + timedelta(seconds=FURTHEST)
    return next_at if next_at <= furthest + timedelta(seconds=limit.step + limit.saved) else furthest


def grant(limit: Limit, *, next_at: datetime | None, now: datetime, ahead: float) -> Slot | None:
    """The next slot, where it lies within ``ahead`` seconds; ``next_at`` is what the last one left behind."""
    saved, step = timedelta(seconds=limit.saved), timedelta(seconds=limit.step)
    at = now if next_at is None else max(now, next_at)
    if at > now + timedelta(seconds=min(ahead, FURTHEST)):
        return None
    # Reckoned as if a slot were due each step: an idle time lets that schedule fall behind, by `saved` at most.
    schedule = at if next_at is None else max(at, next_at + saved)
    return Slot(at, schedule + step - saved)
