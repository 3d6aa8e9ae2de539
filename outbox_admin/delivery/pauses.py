"""The breakers of this process, one for each route, shared by its lanes.

The rules are core/breaker's; here they get a lock, a place and the counting of what is in hand. With the breaker
turned off nothing ever pauses.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from outbox_admin.core import breaker as rules
from outbox_admin.core.breaker import Breaker, Gate
from outbox_admin.core.cause import Cause
from outbox_admin.core.lifecycle import Accepted, ChannelFault, Outcome, Rejected
from outbox_admin.core.storm import Weather, is_storm, observed

log = logging.getLogger("outbox_admin.delivery")


class Pauses:
    """``now`` is the monotonic clock's; ``roll`` gives the jitter of waits."""

    def __init__(self, *, on: bool, now: Callable[[], float], roll: Callable[[], float]) -> None:
        self._on = on
        self._now = now
        self._roll = roll
        self._lock = threading.Lock()
        self._breakers: dict[str, Breaker] = {}
        self._weather: dict[str, Weather] = {}
        self._in_hand: dict[str, int] = {}

    @contextmanager
    def reserve(self, route: str, wanted: int) -> Iterator[int]:
        """How many messages may be taken up over ``route`` now, at most ``wanted``; they count while this lasts."""
        with self._lock:
            room = rules.room(self._of(route), wanted=wanted, in_hand=self._in_hand.get(route, 0))
            self._in_hand[route] = self._in_hand.get(route, 0) + room
        try:
            yield room
        finally:
            with self._lock:
                self._in_hand[route] -= room

    def shut(self, route: str) -> bool:
        return self._of(route).gate is Gate.OPEN

    def take_probe(self, route: str) -> bool:
        """Whether the caller is the one to probe now; it tells :meth:`probed`."""
        with self._lock:
            if not rules.probe_due(self._of(route), now=self._now()):
                return False
            self._breakers[route] = rules.probing(self._of(route), now=self._now())
            return True

    def probed(self, route: str, fault: Cause | None) -> None:
        """``fault`` None: the relay answered well."""
        with self._lock:
            before, now = self._of(route), self._now()
            if fault is None:
                after = rules.closed(before)
            else:
                after = rules.probe_failed(before, fault, now=now, roll=self._roll())
            self._breakers[route] = after
        self._tell(route, before, after)

    def temper(self, route: str, outcome: Outcome) -> Outcome:
        """What ``outcome`` counts for while the route is on trial."""
        return rules.tempered(self._of(route), outcome)

    def note(self, route: str, outcome: Outcome) -> bool:
        """After a message. True when nothing more may be sent over this route."""
        if not self._on:
            return False
        with self._lock:
            before, now = self._of(route), self._now()
            fault = outcome.cause if isinstance(outcome, ChannelFault) else self._storm(route, outcome)
            after = before
            if fault is not None:
                after = rules.opened(before, fault, now=now, roll=self._roll())
            elif isinstance(outcome, Accepted):
                after = rules.accepted(before)
            self._breakers[route] = after
        self._tell(route, before, after)
        return after.gate is Gate.OPEN

    def shown(self, now: datetime) -> dict[str, Any]:
        """The open ones for the heartbeat, their seconds turned into times."""
        return {
            route: self._shown(breaker, now)
            for route, breaker in dict(self._breakers).items()
            if breaker.gate is not Gate.CLOSED
        }

    def _storm(self, route: str, outcome: Outcome) -> Cause | None:
        """The cause to open with when this is one refusal too many; the count starts anew then."""
        now = self._now()
        weather = observed(self._weather.get(route, Weather()), outcome, now=now)
        storm = isinstance(outcome, Rejected) and is_storm(weather, now=now)
        self._weather[route] = Weather() if storm else weather
        return outcome.cause if storm and isinstance(outcome, Rejected) else None

    def _shown(self, breaker: Breaker, now: datetime) -> dict[str, Any]:
        second, cause = self._now(), breaker.cause
        return {
            "since": (now + timedelta(seconds=breaker.opened_at - second)).isoformat(),
            "until": (now + timedelta(seconds=breaker.next_probe_at - second)).isoformat(),
            "phase": cause.phase if cause else None,
            "kind": cause.kind if cause else None,
            "code": cause.code if cause else None,
            "enhanced": cause.enhanced if cause else None,
        }

    def _of(self, route: str) -> Breaker:
        return self._breakers.get(route) or Breaker()

    def _tell(self, route: str, before: Breaker, after: Breaker) -> None:
        if after.gate is Gate.OPEN and after.openings != before.openings:
            cause = after.cause
            why = f"{cause.phase} {cause.kind} {cause.code or ''}".strip() if cause else ""
            log.warning(
                "route %s pauses (%s), probe in %.0f s", route, why, after.next_probe_at - self._now()
            )
        elif before.gate is Gate.OPEN and after.gate is not Gate.OPEN:
            log.info("route %s answers again", route)
