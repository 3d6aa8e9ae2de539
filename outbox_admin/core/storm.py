"""Two alarms against our own mistakes: a relay that refuses everybody, and payloads that no longer open.

Both are counts over the last minutes, kept as frozen values. Pure: ``now`` is in seconds of one clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from outbox_admin.core.lifecycle import ChannelFault, Outcome, Rejected
from outbox_admin.core.replycode import is_about_recipient

STORM_WINDOW = 300.0  #: seconds of outcomes that are looked at
STORM_REJECTIONS = 20  #: more than these, and more than half of all, are a storm
_SLICE = 10.0

UNREADABLE_WINDOW = 600.0
UNREADABLE_REJECTIONS = 5  #: so many may be rejected in the window; the next one is held


@dataclass(frozen=True, slots=True)
class Slice:
    """Outcomes that were judged in the ten seconds from ``start``."""

    start: float
    judged: int = 0
    rejected: int = 0


@dataclass(frozen=True, slots=True)
class Weather:
    """The judgements of one route's last five minutes, in slices of ten seconds, oldest first."""

    slices: tuple[Slice, ...] = ()


def observed(weather: Weather, outcome: Outcome, *, now: float) -> Weather:
    """One more outcome. What the relay did not judge, and addresses that do not exist, tell nothing of a storm."""
    if not _tells(outcome):
        return weather
    kept = _within(weather, now)
    latest = kept[-1] if kept and now - kept[-1].start < _SLICE else None
    part = latest or Slice(now)
    counted = Slice(part.start, part.judged + 1, part.rejected + isinstance(outcome, Rejected))
    return Weather((*(kept[:-1] if latest else kept), counted))


def is_storm(weather: Weather, *, now: float) -> bool:
    """More than 20 rejections that are over half of the last five minutes' outcomes."""
    recent = _within(weather, now)
    rejected = sum(part.rejected for part in recent)
    return rejected > STORM_REJECTIONS and 2 * rejected > sum(part.judged for part in recent)


def together(weathers: Iterable[Weather], *, since: float | None = None) -> Weather:
    """What several workers saw of one route; nothing from before ``since``, when it last opened its breaker."""
    slices = [part for weather in weathers for part in weather.slices if since is None or part.start >= since]
    return Weather(tuple(sorted(slices, key=lambda part: part.start)))


def _within(weather: Weather, now: float) -> tuple[Slice, ...]:
    """A slice from the future tells nothing: the clock was put back since."""
    return tuple(part for part in weather.slices if -_SLICE < now - part.start < STORM_WINDOW)


def _tells(outcome: Outcome) -> bool:
    match outcome:
        case ChannelFault():
            return False
        case Rejected(cause):
            # No code: the relay was not even asked.
            return cause.code is not None and not is_about_recipient(cause.enhanced)
        case _:
            return True


@dataclass(frozen=True, slots=True)
class Unopened:
    """Moments at which a payload was rejected as unreadable since one was last opened. ``tripped`` stays."""

    rejections: tuple[float, ...] = ()
    tripped: bool = False


def may_reject(unopened: Unopened, *, now: float) -> bool:
    """False: hold the row instead. Five in ten minutes without a success between may be our own fault."""
    return not unopened.tripped and len(_recent(unopened, now)) < UNREADABLE_REJECTIONS


def unreadable(unopened: Unopened, *, now: float) -> Unopened:
    """One more that does not open, rejected where :func:`may_reject` said so, else held; the first held one trips."""
    if not may_reject(unopened, now=now):
        return replace(unopened, tripped=True)
    return replace(unopened, rejections=(*_recent(unopened, now), now))


def readable(unopened: Unopened) -> Unopened:
    """A payload was opened: the count starts anew. A tripped alarm waits for :func:`confirmed`."""
    return replace(unopened, rejections=())


def confirmed() -> Unopened:
    """An operator has looked at it."""
    return Unopened()


def _recent(unopened: Unopened, now: float) -> tuple[float, ...]:
    return tuple(moment for moment in unopened.rejections if now - moment < UNREADABLE_WINDOW)
