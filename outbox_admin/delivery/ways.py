"""One lane's ways out: a session for each route, and which of them may be used now.

The first route that is not paused is taken. A paused one is probed when its wait is over, by one lane of the process,
without a message at risk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

from outbox_admin.core.classify import Break, Reply, classify
from outbox_admin.core.lifecycle import ChannelFault, Outcome
from outbox_admin.delivery.compose import Composed
from outbox_admin.delivery.parts import Parts
from outbox_admin.delivery.pauses import Pauses
from outbox_admin.delivery.routes import Route
from outbox_admin.delivery.simulated import ROUTE, SimulatedSession
from outbox_admin.delivery.smtp import SmtpSession
from outbox_admin.delivery.turns import Turns


class Session(Protocol):
    """What a lane asks of a session; faults of the network are values."""

    @property
    def connected(self) -> bool: ...
    def open(self) -> Reply | Break | None: ...
    def deliver(
        self, sender: str, recipient: str, content: bytes, *, smtputf8: bool = False
    ) -> Reply | Break: ...
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

    def __init__(self, parts: Parts, pauses: Pauses, turns: Turns) -> None:
        self._parts = parts
        self._pauses = pauses
        self._ways = [Way(route.name, _session(route, parts, turns)) for route in parts.routes] or [
            Way(ROUTE, SimulatedSession())
        ]

    def pick(self) -> Way | None:
        """The way for the next claim; None while every route is paused."""
        for way in self._ways:
            if not self._pauses.shut(way.route):
                return way
            if self._pauses.take_probe(way.route) and self._probe(way):
                return way
        return None

    def connect(self, way: Way) -> Outcome | None:
        """None when the relay is ready for a message; a connection that went stale is replaced."""
        event = way.session.open()
        return None if event is None else self._judge(way, event)

    def deliver(self, way: Way, composed: Composed) -> Outcome:
        """Hands one message over and says what the relay made of it."""
        recipient = self._parts.redirect_to or composed.recipient
        event = way.session.deliver(
            composed.sender,
            recipient,
            composed.content,
            smtputf8=composed.smtputf8 or not recipient.isascii(),
        )
        return self._judge(way, event)

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
        self._pauses.probed(way.route, fault)
        return fault is None

    def _judge(self, way: Way, event: Reply | Break) -> Outcome:
        outcome = classify(event, literal_5xx=self._parts.rules.literal_5xx)
        return self._pauses.temper(way.route, outcome)


def _session(route: Route, parts: Parts, turns: Turns) -> SmtpSession:
    return SmtpSession(route, clock=parts.clock.monotonic, may_begin=partial(turns.take, route.name))
