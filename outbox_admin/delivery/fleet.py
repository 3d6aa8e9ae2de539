"""One lane's dealings with the breakers that all workers share: who probes, who may try a message, what results mean.

Every step is a short transaction of its own, or part of the one that claims or records. With the breaker turned off,
and where mail is only simulated, nothing is read and nothing is written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import sqlalchemy as sa

from outbox_admin.core import breaker as rules
from outbox_admin.core.breaker import Breaker, Gate
from outbox_admin.core.cause import Cause
from outbox_admin.db.store import routes
from outbox_admin.db.store.results import Result
from outbox_admin.db.store.sqlite import BEGIN_OPTION
from outbox_admin.delivery.faults import describe
from outbox_admin.delivery.parts import HANDOVER_MARGIN, Parts
from outbox_admin.delivery.pauses import Pauses
from outbox_admin.delivery.verdicts import Bench, Verdict

T = TypeVar("T")

log = logging.getLogger("outbox_admin.delivery")


@dataclass(slots=True)
class Fleet:
    """Used by one thread. ``worker`` and ``lane`` sign what is taken, so that it can be given back."""

    parts: Parts
    pauses: Pauses
    worker: str
    lane: int = 0
    _permits: int = 0

    @property
    def names(self) -> list[str]:
        """The routes that have a breaker."""
        return [route.name for route in self.parts.routes] if self.pauses.on else []

    def look(self) -> None:
        """Reads the table while a route is not closed: who waits for it must learn when that ends."""
        if not self.names or self.pauses.undisturbed():
            return
        reading = self.parts.engine.execution_options(**{BEGIN_OPTION: "DEFERRED"})
        with reading.begin() as db:
            self.pauses.see(routes.see(db, self.names))

    def may_claim(self, db: sa.Connection, route: str) -> bool:
        """Asked in the claim's own transaction, so that nobody sends over a route that others have opened."""
        if route not in self.names:
            return True
        found = routes.see(db, self.names)
        routes.enter(db, [name for name, seen in found.items() if not seen.is_stored])
        self.pauses.see(found)
        gate = self.pauses.fleet(route).gate
        return gate is Gate.CLOSED or (self._permits > 0 and gate is Gate.HALF_OPEN)

    def is_full(self, route: str) -> bool:
        """Whether the route is on trial and others have all the permits, as last seen."""
        shared, now = self.pauses.fleet(route), self.parts.clock.now().timestamp()
        if shared.gate is not Gate.HALF_OPEN:
            return False
        trials = rules.trials_now(shared, now=now, patience=self._patience)
        out = sum(trial.by != self._by for trial in trials)
        return not rules.room(shared, wanted=1, in_hand=out)

    @contextmanager
    def reserve(self, route: str, wanted: int) -> Iterator[int]:
        """How many messages may be taken up over ``route`` now; on trial, of those of the whole fleet."""
        permits = self._take_trials(route, wanted) if self.is_on_trial(route) else 0
        if not permits and not self.is_on_trial(route):  # any more, or never
            with self.pauses.reserve(route, wanted) as room:
                yield room
            return
        self._permits = permits
        try:
            yield self._permits
        finally:
            if self._permits:
                self._permits = 0
                self.give_back(route)

    def is_on_trial(self, route: str) -> bool:
        """Whether messages need the fleet's permits."""
        return route in self.names and self.pauses.fleet(route).gate is Gate.HALF_OPEN

    def take_probe(self, route: str) -> bool:
        """Whether this lane is the one to probe now; it tells :meth:`probed` or gives it back."""
        if self._is_alone(route):
            return self.pauses.take_probe(route)
        now = self.parts.clock.now()
        shared = self.pauses.fleet(route)
        if (
            not rules.probe_due(shared, now=now.timestamp(), patience=self._patience)
            and not shared.probing_by
        ):
            return False
        return self._do(
            route,
            lambda db: routes.take_probe(db, route, by=self._by, now=now, patience=self._patience),
        )

    def probed(self, route: str, fault: Cause | None) -> None:
        """``fault`` None: the relay answered well. A worker that is alone asks again whether it still is."""
        now, roll = self.parts.clock.now(), self.parts.roll()
        if self._is_alone(route):
            self.pauses.probed(route, fault)
            with self.parts.engine.begin() as db:
                verdict = self._bench.of_own_probe(db, route, fault, now=now)
            self.learn([verdict])
            return
        with self.parts.engine.begin() as db:
            after = routes.probed(db, route, by=self._by, fault=fault, now=now, roll=roll)
        self.pauses.settle(route, after)

    def give_back(self, route: str) -> None:
        """What this lane holds of the route; where that fails it lapses by itself."""
        try:
            with self.parts.engine.begin() as db:
                routes.give_back(db, route, by=self._by)
        except Exception as error:  # noqa: BLE001 - a permit is not worth the lane
            log.warning("a permit for route %s waits for its end: %s", route, describe(error))

    def judge(self, db: sa.Connection, results: Sequence[Result], *, now: datetime) -> list[Verdict]:
        """What ``results`` mean for their routes; in the transaction that records them, after the rows."""
        found: list[Verdict] = []
        for route in self.names:
            mine = [result for result in results if result.route == route]
            if mine and (verdict := self._bench.of_results(db, route, mine, now=now)):
                found.append(verdict)
        return found

    def learn(self, verdicts: Sequence[Verdict]) -> None:
        """Once they are committed."""
        for verdict in verdicts:
            if verdict.breaker is not None:
                self.pauses.settle(verdict.route, verdict.breaker, alone=verdict.alone)
            if verdict.told:
                self.pauses.told(verdict.route)
            if verdict.storm:
                self.pauses.clear(verdict.route)

    @property
    def _bench(self) -> Bench:
        return Bench(self.pauses, self.worker, self.parts.roll)

    @property
    def _by(self) -> str:
        return f"{self.worker}/{self.lane}"

    @property
    def _patience(self) -> float:
        return self.parts.rules.handover_limit + HANDOVER_MARGIN

    def _is_alone(self, route: str) -> bool:
        return self.pauses.own(route).gate is Gate.OPEN

    def _take_trials(self, route: str, wanted: int) -> int:
        now = self.parts.clock.now()
        return self._do(
            route,
            lambda db: routes.take_trials(
                db, route, by=self._by, wanted=wanted, now=now, patience=self._patience
            ),
        )

    def _do(self, route: str, step: Callable[[sa.Connection], tuple[Breaker, T]]) -> T:
        with self.parts.engine.begin() as db:
            breaker, answer = step(db)
        self.pauses.settle(route, breaker)
        return answer
