"""The thread that looks for mail while lanes sleep, so that not each of them asks the database.

It waits until the rhythm says so, a row becomes due, or somebody wakes it. What it does then is decided elsewhere.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import sqlalchemy as sa

from outbox_admin.db.reads.upcoming import Upcoming, upcoming
from outbox_admin.delivery.common import Common
from outbox_admin.delivery.faults import describe
from outbox_admin.delivery.lanes import Lane
from outbox_admin.delivery.parts import Parts
from outbox_admin.delivery.rhythm import Rhythm

Answer = TypeVar("Answer")

log = logging.getLogger("outbox_admin.delivery")


class Poller:
    """``turn`` is a cycle's whole work, ``wake_lane`` wakes one that sleeps. All but :meth:`start` from any thread."""

    def __init__(
        self,
        parts: Parts,
        common: Common,
        lanes: Sequence[Lane],
        *,
        turn: Callable[[], None],
        wake_lane: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._common = common
        self._lanes = lanes
        self._turn = turn
        self._wake_lane = wake_lane
        self._reading = _for_one_statement(parts.engine)
        self._rhythm = Rhythm(cycle=parts.rules.cycle, roll=parts.roll, now=time.monotonic())
        self._rung = threading.Event()
        self._hurried = False
        self._worked = 0
        self._thread = threading.Thread(target=self._run, name="outbox-poller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, seconds: float) -> None:
        if self._thread.is_alive():
            self._thread.join(seconds)

    def ring(self) -> None:
        """There may be mail: looks at once, and twice again within 20 ms. Rings that come meanwhile are one."""
        self._rung.set()

    def hurry(self) -> None:
        """A whole turn at once instead of at the end of the cycle."""
        self._hurried = True
        self._rung.set()

    def attend(self) -> None:
        """Between two steps of a turn, by its thread: who wakes a worker does not wait for the turn's end."""
        self._answer()
        if self._rhythm.wants_answer(time.monotonic()):
            self._look()

    def _run(self) -> None:
        stopping = self._common.stopping.asked
        while not stopping.is_set():
            self._step()
            seconds = max(0.0, self._rhythm.next_at - time.monotonic())
            (stopping if self._rhythm.answering else self._rung).wait(seconds)
            self._answer()

    def _answer(self) -> None:
        if not self._rung.is_set():
            return
        self._rung.clear()
        if self._hurried:
            self._hurried = False
            self._rhythm.hurry(time.monotonic())
        self._rhythm.wake(time.monotonic())

    def _step(self) -> None:
        whole = self._rhythm.wants_turn(time.monotonic())
        if whole:
            self._try(self._turn)
            self._rhythm.turned(time.monotonic())
        self._look(wakes=not whole)  # a whole turn has woken a lane already

    def _look(self, *, wakes: bool = True) -> None:
        began = time.monotonic()
        coming = self._try(self._ask)
        if coming is None:
            self._rhythm.failed()
            return
        found = coming.due and wakes
        if found:
            self._wake_lane()
        ended, due_in = time.monotonic(), self._due_in(coming)
        self._rhythm.looked(began, ended, busy=self._busy(), found=found, due_in=due_in)

    def _ask(self) -> Upcoming:
        """Nothing to be asked where nobody could take it."""
        if self._common.halted or not any(lane.idle for lane in self._lanes):
            return Upcoming(due=False, next_at=None)
        with self._reading.connect() as db:
            return upcoming(db, now=self._parts.clock.now())

    def _due_in(self, coming: Upcoming) -> float | None:
        if coming.next_at is None:
            return None
        return (coming.next_at - self._parts.clock.now()).total_seconds()

    def _busy(self) -> bool:
        """Whether a lane has claimed something since the last look."""
        before, self._worked = self._worked, sum(lane.worked for lane in self._lanes)
        return self._worked > before

    def _try(self, step: Callable[[], Answer]) -> Answer | None:
        try:
            return step()
        except Exception as error:  # noqa: BLE001 - the loop outlives whatever happens in a turn
            self._common.tally.add("error")
            log.error("a turn of the poller broke off: %s", describe(error))
            return None


def _for_one_statement(engine: sa.Engine) -> sa.Engine:
    """On PostgreSQL without the round trips of a transaction, on SQLite without its lock for writing."""
    if engine.dialect.name == "postgresql":
        return engine.execution_options(isolation_level="AUTOCOMMIT")
    return engine.execution_options(sqlite_begin="DEFERRED")
