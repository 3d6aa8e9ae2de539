"""One lane's ways out: a session for each route, and which of them may be used now.

The first route that is not paused is taken. A paused one is probed when its wait is over, by one lane of all workers,
without a message at risk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Protocol

from outbox_admin.core.classify import Break, Reply, classify
from outbox_admin.core.lifecycle import ChannelFault, Outcome
from outbox_admin.delivery.common import Stopping
from outbox_admin.delivery.compose import Composed
from outbox_admin.delivery.fleet import Fleet
from outbox_admin.delivery.parts import Parts
from outbox_admin.delivery.routes import Route
from outbox_admin.delivery.simulated import ROUTE, SimulatedSession
from outbox_admin.delivery.smtp import SmtpSession
from outbox_admin.delivery.turns import Turns


class Session(Protocol):
    """What a lane asks of a session; faults of the network are values."""

    @property
    def connected(self) -> bool: ...
    def open(self) -> Reply | Break | None: ...
    def deliver(self, message: Composed, *, then: Composed | None = None) -> Reply | Break: ...
    def probe(self) -> Reply | Break | None: ...
    def quit(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Way:
    route: str
    session: Session


class Ways:
    """Used by one thread; only the pauses are shared with the other lanes."""

    def __init__(self, parts: Parts, fleet: Fleet, turns: Turns, stopping: Stopping) -> None:
        self._parts = parts
        self._fleet = fleet
        self._pauses = fleet.pauses
        self._stopping = stopping
        self._ways = [Way(route.name, _session(route, parts, turns)) for route in parts.routes] or [
            Way(ROUTE, SimulatedSession())
        ]

    def pick(self) -> Way | None:
        """The way for the next claim; None while every route is paused."""
        self._fleet.look()
        for way in self._ways:
            if self._pauses.shut(way.route):
                if self._fleet.take_probe(way.route) and self._probe(way):
                    return way
            elif not self._fleet.is_full(way.route):
                return way
        return None

    def look_after_others(self, used: Way) -> None:
        """Probes paused routes although ``used`` takes the mail: who needs one later finds it open."""
        for way in self._ways:
            if way is not used and self._pauses.shut(way.route) and self._fleet.take_probe(way.route):
                self._probe(way)

    def is_shut(self, way: Way) -> bool:
        """Whether nothing more may be sent over it, so far as is known here."""
        return self._pauses.shut(way.route)

    def connect(self, way: Way) -> Outcome | None:
        """None when the relay is ready for a message; a connection that went stale is replaced."""
        event = way.session.open()
        return None if event is None else self._judge(way, event)

    def deliver(
        self,
        way: Way,
        composed: Composed,
        *,
        then: Composed | None = None,
        first_fault_at: datetime | None = None,
    ) -> Outcome:
        """Hands one message over and says what the relay made of it. ``first_fault_at``: when it first met a fault.

        ``then`` will probably be next: its envelope may go ahead, never its content.
        """
        following = None if then is None else self._directed(then)
        event = way.session.deliver(self._directed(composed), then=following)
        return self._judge(way, event, first_fault_at=first_fault_at)

    def _directed(self, composed: Composed) -> Composed:
        """Outside production one address gets every mail (E28)."""
        recipient = self._parts.redirect_to
        if recipient is None:
            return composed
        smtputf8 = composed.smtputf8 or not recipient.isascii()
        return replace(composed, recipient=recipient, smtputf8=smtputf8)

    def note(self, way: Way, outcome: Outcome) -> bool:
        """Tells the route's breaker. True when the lane must not go on over this way."""
        return self._pauses.note(way.route, outcome)

    def rest(self) -> None:
        """Nothing to send for a while: leaves the relays politely."""
        for way in self._ways:
            if way.session.connected:
                way.session.quit()

    def abort(self) -> None:
        """From another thread: the hand-over under way ends with what is known of it."""
        for way in self._ways:
            way.session.abort()

    def close(self) -> None:
        """At once, without a word."""
        for way in self._ways:
            way.session.close()

    def _probe(self, way: Way) -> bool:
        """One fresh connection up to login and NOOP."""
        event = way.session.probe()
        outcome = None if event is None else self._judge(way, event)
        fault = outcome.cause if isinstance(outcome, ChannelFault) else None
        if fault is not None:
            way.session.close()
        if fault is not None and self._stopping.asked.is_set():
            # Cut off by ourselves it tells nothing; another may probe at once.
            self._fleet.give_back(way.route)
        else:
            self._fleet.probed(way.route, fault)
        return fault is None

    def _judge(self, way: Way, event: Reply | Break, *, first_fault_at: datetime | None = None) -> Outcome:
        outcome = classify(event, literal_5xx=self._parts.rules.literal_5xx)
        return self._pauses.judge(way.route, outcome, first_fault_at=first_fault_at)


def _session(route: Route, parts: Parts, turns: Turns) -> SmtpSession:
    return SmtpSession(route, clock=parts.clock.monotonic, may_begin=partial(turns.take, route.name))
