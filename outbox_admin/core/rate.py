"""How many messages may begin in a second, and the slots that keep to it. Pure: moments come in, moments go out.

A slot is a moment before which the content of one message must not begin to leave, and some time after which it is
void. Over all workers slots are so far apart that, whenever within its time each of them is used, no second at the
relay ever sees more than the limit allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

#: Seconds after its moment within which a slot may be used: at least, and at most.
USABLE, VOID = 0.1, 1.0
#: Seconds by which the way to the relay may take longer for one message than for another.
ON_THE_WAY = 0.05
#: Slots are handed out so many seconds ahead at most.
FURTHEST = 10.0

_WINDOW = 1 + USABLE + ON_THE_WAY  #: in what time the slots lie that one second may see used
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
        return 1 / min(self.per_second, (1 - _A_BIT) * self.most / _WINDOW)

    @property
    def saved(self) -> float:
        """How many seconds' worth of slots an idle time may leave for a burst."""
        return (min(self.most + 1 - _A_BIT - _WINDOW / self.step, self.burst + 1) - 1) * self.step

    @property
    def usable(self) -> float:
        """Seconds after its moment within which a slot may be used; more where a low rate makes that harmless."""
        harmless = (self.most - _A_BIT) * self.step - self.saved - 1 - ON_THE_WAY
        return max(USABLE, min(harmless, VOID))


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


def grant(limit: Limit, *, next_at: datetime | None, now: datetime, ahead: float) -> Slot | datetime:
    """The next slot, where it lies within ``ahead`` seconds; else when to ask again.

    ``next_at`` is what the last slot left behind.
    """
    saved, step = timedelta(seconds=limit.saved), timedelta(seconds=limit.step)
    at = now if next_at is None else max(now, next_at)
    reach = timedelta(seconds=min(ahead, FURTHEST))
    if at > now + reach:
        return at - reach
    # Reckoned as if a slot were due each step: an idle time lets that schedule fall behind, by `saved` at most.
    schedule = at if next_at is None else max(at, next_at + saved)
    return Slot(at, schedule + step - saved)
