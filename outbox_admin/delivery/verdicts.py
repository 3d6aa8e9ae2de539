"""What results mean for their route: one message's fault, a worker's, or the channel's (E21 to E24).

All of it happens in the transaction that records the results, after the rows and under the route's lock where it
changes anything. A good result costs one UPDATE that mostly finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from outbox_admin.core import streak as rules
from outbox_admin.core.breaker import Breaker, Gate, gate_of
from outbox_admin.core.cause import Cause
from outbox_admin.core.lifecycle import State
from outbox_admin.core.storm import is_storm, together
from outbox_admin.core.streak import Streak
from outbox_admin.db.store import routes, streaks, witnesses
from outbox_admin.db.store.results import Result
from outbox_admin.delivery.pauses import Pauses


@dataclass(frozen=True, slots=True)
class Verdict:
    """``breaker``: the shared one as it is now, None where nothing was asked of it. ``alone``: the fault is ours only.

    ``told``: the table knows that this worker gets through. ``storm``: the count of refusals starts anew.
    """

    route: str
    breaker: Breaker | None
    alone: Cause | None = None
    told: bool = False
    storm: bool = False


@dataclass(frozen=True, slots=True)
class Bench:
    """Where it is judged, for one worker."""

    pauses: Pauses
    worker: str
    roll: Callable[[], float]

    def of_results(
        self, db: sa.Connection, route: str, results: Sequence[Result], *, now: datetime
    ) -> Verdict | None:
        """``results`` are one route's, in the order in which they came in."""
        trouble = [result for result in results if result.change.state is not State.SENT]
        accepted = len(results) - len(trouble)
        breaker = self._accepted(db, route, accepted, now=now) if accepted else None
        cause, storm = self._blamed(db, route, results, now=now) if trouble else (None, False)
        if cause is not None:
            return self._open(db, route, cause, now=now, storm=storm)
        told = accepted > 0 and self._witnessed(db, route, now=now)
        return Verdict(route, breaker, told=told) if breaker or told else None

    def of_own_probe(self, db: sa.Connection, route: str, fault: Cause | None, *, now: datetime) -> Verdict:
        """A worker that paused alone has probed: whether it still is alone."""
        if fault is not None:
            return self._open(db, route, fault, now=now)
        witnesses.note(db, route, worker=self.worker, now=now, good=True)
        return Verdict(route, None, told=True)

    def _open(
        self, db: sa.Connection, route: str, cause: Cause, *, now: datetime, storm: bool = False
    ) -> Verdict:
        breaker, alone = routes.open_unless_alone(
            db, route, worker=self.worker, cause=cause, now=now, roll=self.roll()
        )
        return Verdict(route, breaker, alone=cause if alone else None, storm=storm)

    def _accepted(self, db: sa.Connection, route: str, number: int, *, now: datetime) -> Breaker | None:
        return routes.accepted(db, route, number=number, now=now)

    def _witnessed(self, db: sa.Connection, route: str, *, now: datetime) -> bool:
        if not self.pauses.has_news(route):
            return False
        witnesses.note(db, route, worker=self.worker, now=now, good=True)
        return True

    def _blamed(
        self, db: sa.Connection, route: str, results: Sequence[Result], *, now: datetime
    ) -> tuple[Cause | None, bool]:
        """The cause for which the channel is to blame, and whether a storm of refusals is."""
        stored = routes.locked_row(db, route)
        on_trial = gate_of(stored.breaker) is Gate.HALF_OPEN
        hidden = self._hidden(db, route, results, on_trial=on_trial, now=now)
        for result in results:
            if result.change.outcome == "channel_fault":
                return result.change.cause, False
        if hidden is not None:
            return hidden, False
        refusals = [result.change.cause for result in results if _refuses(result)]
        if refusals and self._is_storm(db, route, now=now, since=stored.opened_at):
            return refusals[-1], True
        return None, False

    @staticmethod
    def _hidden(
        db: sa.Connection, route: str, results: Sequence[Result], *, on_trial: bool, now: datetime
    ) -> Cause | None:
        """Lengthens or ends the streak of deferrals; the cause of one that is full, its attempts given back."""
        before = streak = streaks.streak(db, route)
        cause = None
        for result in results:
            streak = _next(streak, result, on_trial=on_trial)
            if streak is not None and streak.is_full:
                streaks.give_back(db, streak, now=now)
                streak, cause = None, result.change.cause
        if streak != before:
            streaks.keep(db, route, streak)
        return cause

    def _is_storm(self, db: sa.Connection, route: str, *, now: datetime, since: datetime | None) -> bool:
        own, start = self.pauses.weather(route), None if since is None else since.timestamp()
        all_together = together([own, *witnesses.weathers(db, route, but=self.worker)], since=start)
        storm = is_storm(all_together, now=now.timestamp())
        witnesses.note_weather(db, route, worker=self.worker, weather=None if storm else own)
        return storm


def _next(streak: Streak | None, result: Result, *, on_trial: bool) -> Streak | None:
    """After one more result; what is neither alike nor a refused trial ends the streak."""
    change = result.change
    if on_trial and rules.is_passed_over(change.cause):
        return streak
    mark = rules.mark_of(change.cause) if change.outcome == "deferred" else None
    if mark is None:
        return None
    return rules.lengthened(streak, mark, result.claim.id, result.claim.tries, on_trial=on_trial)


def _refuses(result: Result) -> bool:
    """By the relay, not by ourselves."""
    cause = result.change.cause
    return result.change.outcome == "rejected" and cause is not None and cause.code is not None
