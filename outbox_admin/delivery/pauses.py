"""The breakers as one process sees them, shared by its lanes: its own, and those of the fleet as it last read them.

A fault opens the process's own at once; whether the fleet's opens too is decided in the database (delivery/fleet),
and then that one rules. What stays here is the pause of a worker that is alone with its fault. The rules are
core/breaker's; with the breaker turned off nothing ever pauses.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from outbox_admin.core import breaker as rules
from outbox_admin.core.breaker import Breaker, Gate
from outbox_admin.core.cause import Cause
from outbox_admin.core.lifecycle import Accepted, ChannelFault, Outcome
from outbox_admin.core.storm import Weather, observed
from outbox_admin.db.store.routes import Seen

#: Seconds between two notes in the table that this worker gets through.
TELL_EVERY = 1.0

log = logging.getLogger("outbox_admin.delivery")


class Pauses:
    """``now`` is the monotonic clock's, ``moment`` the database's time; ``roll`` gives the jitter of waits."""

    def __init__(
        self,
        *,
        on: bool,
        now: Callable[[], float],
        moment: Callable[[], datetime],
        roll: Callable[[], float],
    ) -> None:
        self.on = on
        self._now = now
        self._moment = moment
        self._roll = roll
        self._lock = threading.Lock()
        self._own: dict[str, Breaker] = {}
        self._fleet: dict[str, Seen] = {}
        self._weather: dict[str, Weather] = {}
        self._accepted_at: dict[str, datetime] = {}
        self._in_hand: dict[str, int] = {}
        self._told_at: dict[str, float] = {}

    def fleet(self, route: str) -> Breaker:
        """The shared breaker as this process last saw it."""
        return self._fleet.get(route, Seen()).breaker

    def own(self, route: str) -> Breaker:
        return self._own.get(route) or Breaker()

    def shut(self, route: str) -> bool:
        """Whether nothing may be sent over ``route`` by this process."""
        return Gate.OPEN in (self.own(route).gate, self.fleet(route).gate)

    def undisturbed(self) -> bool:
        """Whether every route is closed, for the fleet and for this process, so far as is known here."""
        breakers = [*(seen.breaker for seen in tuple(self._fleet.values())), *tuple(self._own.values())]
        return all(breaker.gate is Gate.CLOSED for breaker in breakers)

    def see(self, found: Mapping[str, Seen]) -> None:
        """The table's breakers, just read. One that is open for all needs none of our own beside it."""
        for route, seen in found.items():
            with self._lock:
                asked_before = self._fleet.get(route, Seen()).asked_at
                before, self._fleet[route] = self.fleet(route), seen
                if seen.breaker.gate is Gate.OPEN:
                    self._own.pop(route, None)
                elif seen.asked_at not in (None, asked_before) and self.own(route).gate is Gate.OPEN:
                    self._own[route] = rules.hastened(self.own(route), now=self._now())
            self._tell(route, "for all workers", before, seen.breaker)

    def settle(self, route: str, breaker: Breaker, *, alone: Cause | None = None) -> None:
        """What became of the shared breaker. ``alone``: a fault of ours that the others do not have."""
        self.see({route: replace(self._fleet.get(route, Seen()), breaker=breaker)})
        if alone is not None:
            self._open(route, alone)
            log.warning("route %s: others get through, this worker pauses alone (%s)", route, words(alone))

    @contextmanager
    def reserve(self, route: str, wanted: int) -> Iterator[int]:
        """How many messages may be taken up now, at most ``wanted``; they count while this lasts."""
        with self._lock:
            room = rules.room(self._ruling(route), wanted=wanted, in_hand=self._in_hand.get(route, 0))
            self._in_hand[route] = self._in_hand.get(route, 0) + room
        try:
            yield room
        finally:
            with self._lock:
                self._in_hand[route] -= room

    def take_probe(self, route: str) -> bool:
        """Whether the caller is the one of this process to probe for its own breaker now; it tells :meth:`probed`."""
        with self._lock:
            if not rules.probe_due(self.own(route), now=self._now()):
                return False
            self._own[route] = rules.probing(self.own(route), now=self._now())
            return True

    def probed(self, route: str, fault: Cause | None) -> None:
        """Of the own breaker; ``fault`` None: the relay answered well."""
        with self._lock:
            before, now = self.own(route), self._now()
            if fault is None:
                after = rules.closed(before)
            else:
                after = rules.probe_failed(before, fault, now=now, roll=self._roll())
            self._own[route] = after
        self._tell(route, "for this worker", before, after)

    def judge(self, route: str, outcome: Outcome, *, first_fault_at: datetime | None = None) -> Outcome:
        """What ``outcome`` counts for while the route is on trial, and for a message that met faults before."""
        if not self.on:
            return outcome
        seen, own = self._fleet.get(route, Seen()).last_accepted_at, self._accepted_at.get(route)
        known = [moment for moment in (seen, own) if moment is not None]
        fair = rules.attributed(
            outcome, first_fault_at=first_fault_at, last_accepted_at=max(known, default=None)
        )
        return rules.tempered(self.fleet(route), rules.tempered(self.own(route), fair))

    def note(self, route: str, outcome: Outcome) -> bool:
        """After a message. True when this process must not send over the route any more."""
        if not self.on:
            return False
        moment = self._moment()
        with self._lock:
            weather = self._weather.get(route, Weather())
            self._weather[route] = observed(weather, outcome, now=moment.timestamp())
            if isinstance(outcome, Accepted):
                self._accepted_at[route] = moment
                self._own[route] = rules.accepted(self.own(route))
        if isinstance(outcome, ChannelFault):
            self._open(route, outcome.cause)
        return self.shut(route)

    def weather(self, route: str) -> Weather:
        """The judgements that this process saw."""
        return self._weather.get(route, Weather())

    def clear(self, route: str) -> None:
        """A storm was taken note of; its count starts anew."""
        self._weather.pop(route, None)

    def has_news(self, route: str) -> bool:
        """Whether the table should hear that this worker gets through: once a second, and first after a fault."""
        told_at = self._told_at.get(route)
        return told_at is None or self._now() - told_at >= TELL_EVERY

    def told(self, route: str) -> None:
        """It has."""
        self._told_at[route] = self._now()

    def shown(self, now: datetime) -> dict[str, Any]:
        """The pauses of this worker alone, for its heartbeat; their seconds turned into times."""
        return {
            route: self._shown(breaker, now)
            for route, breaker in dict(self._own).items()
            if breaker.gate is not Gate.CLOSED
        }

    def _open(self, route: str, cause: Cause) -> None:
        """Until the database has said whether all workers pause or only this one."""
        with self._lock:
            self._told_at.pop(route, None)
            if self.fleet(route).gate is not Gate.OPEN:
                own = self.own(route)
                self._own[route] = rules.opened(own, cause, now=self._now(), roll=self._roll())

    def _ruling(self, route: str) -> Breaker:
        """The own breaker while it is not over an outage, else the fleet's."""
        own = self.own(route)
        return own if own.openings else self.fleet(route)

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

    def _tell(self, route: str, whom: str, before: Breaker, after: Breaker) -> None:
        if after.gate is Gate.OPEN and after.openings != before.openings:
            text = "route %s pauses %s (%s); failure %d in a row"
            log.warning(text, route, whom, words(after.cause), after.openings)
        elif before.gate is Gate.OPEN and after.gate is not Gate.OPEN:
            log.info("route %s answers again", route)


def words(cause: Cause | None) -> str:
    """``connect network``: never an address, never a reply's text."""
    return f"{cause.phase} {cause.kind} {cause.code or ''}".strip() if cause else "no cause told"
