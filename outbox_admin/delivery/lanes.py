"""A lane: one thread with one connection to each relay, claiming for itself.

Lanes do not look for work. They sleep until they are woken, work until a claim comes back short, and sleep again; a
lane whose claim came back full wakes the next one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from uuid import UUID

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.db.store import marks
from outbox_admin.delivery.common import Common
from outbox_admin.delivery.dispatcher import Cycle, Dispatcher
from outbox_admin.delivery.faults import describe
from outbox_admin.delivery.fleet import Fleet
from outbox_admin.delivery.ledger import Ledger
from outbox_admin.delivery.parts import Parts
from outbox_admin.delivery.place import Place

#: A lane that has had nothing to send for so many seconds leaves its relays.
PATIENCE = 20.0
#: The lease of a hand-over that lasts longer than this many seconds is renewed while it goes on (E8).
LONG_HANDOVER = 60.0
#: How often a drain asks a database again that did not answer, a second apart.
DRAIN_RETRIES = 5

log = logging.getLogger("outbox_admin.delivery")


class Lane:
    """The thread works with the dispatcher; all else may be called by any thread."""

    def __init__(self, parts: Parts, common: Common, place: Place, *, pass_on: Callable[[], None]) -> None:
        self._parts = parts
        self._common = common
        self._place = place
        self._pass_on = pass_on
        self._woken = threading.Event()
        self._thread = self._new_thread(self._run)
        self._cycled_at = self._worked_at = parts.clock.monotonic()
        self._renewed_at = self._cycled_at
        self.dispatcher = Dispatcher(parts, common, place)
        self.idle = True
        self.worked = 0  #: cycles that claimed something
        self.drained: Cycle | None = None  #: the last cycle of a drain, once it has ended

    def start(self) -> None:
        self._thread.start()

    def start_draining(self) -> None:
        """Instead of :meth:`start`: the thread ends when nothing more is due."""
        self._thread = self._new_thread(self._drain_once)
        self._thread.start()

    def wake(self) -> None:
        self.idle = False
        self._woken.set()

    def ends_by(self, moment: float) -> bool:
        """Waits for the thread's end until this monotonic second; one that never began has ended."""
        if self._thread.is_alive():
            self._thread.join(max(0.0, moment - self._parts.clock.monotonic()))
        return not self._thread.is_alive()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def holding(self) -> int:
        """Rows that it owns now, results that are not recorded yet included."""
        return self.dispatcher.hand.count + self.dispatcher.ledger.waiting

    @property
    def doubtful(self) -> bool:
        """Whether it must be woken although nothing is due: rows may be in its name."""
        return self.dispatcher.claiming.doubtful

    @property
    def progressed_at(self) -> float:
        """Monotonic second of the last completed cycle or recorded result, or renewal of a long hand-over's lease."""
        return max(self._cycled_at, self._renewed_at, self.dispatcher.ledger.recorded_at)

    def drain(self) -> Cycle:
        """Works, in the calling thread, until no more is due or no route may be used; the last cycle."""
        while True:
            cycle = self.dispatcher.cycle()
            self._cycled_at = self._parts.clock.monotonic()
            if cycle.claimed:
                self._worked_at = self._cycled_at
                self.worked += 1
            if not cycle.more or self._common.stopping.asked.is_set():
                return cycle
            self._pass_on()

    def release_waiting(self) -> None:
        """Gives back, from another thread, what the lane has not begun to send, and ends its reach for a relay."""
        hand = self.dispatcher.hand
        ids = hand.empty()
        if hand.open is None:  # nor can it become open, with nothing in hand
            self.dispatcher.abort()
        if hand.token is not None and ids:
            self._give_back(hand.token, ids)

    def abandon(self) -> None:
        """Ends an open hand-over that was cut off: Unknown where its content had begun, else it is given back."""
        handover = self.dispatcher.hand.seize()
        if handover is None:
            return
        if not self.dispatcher.content_begun:
            self._give_back(handover.claim.token, [handover.claim.id])
            return
        fleet = Fleet(self._parts, self._common.pauses, self._place.worker, self._place.shard)
        ledger = Ledger(self._parts, self._common, self._place, self.dispatcher.hand, fleet)
        ledger.doubt(handover, Cause(Phase.LEASE, Kind.WORKER_LOST))
        ledger.flush()

    def renew_long_handover(self) -> None:
        """For one that is still within its own time limit."""
        handover, now = self.dispatcher.hand.open, self._parts.clock.monotonic()
        if handover is None or not handover.since + LONG_HANDOVER < now < handover.until:
            return
        with self._parts.engine.begin() as db:
            moment, lease = self._parts.clock.now(), self._parts.rules.lease
            marks.renew(db, tokens={handover.claim.token}, now=moment, lease=lease)
        self._renewed_at = now

    def _give_back(self, token: UUID, ids: Collection[UUID]) -> None:
        try:
            self.dispatcher.claiming.release(token, ids)
        except Exception as error:  # noqa: BLE001 - the lanes must be joined whatever happens here
            log.warning("%d messages wait for the end of their lease: %s", len(ids), describe(error))

    def _new_thread(self, target: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=target, name="outbox-lane", daemon=True)

    def _drain_once(self) -> None:
        """A database that does not answer is asked again a few times: nobody else comes back for what is due."""
        cycle = self.drain()
        for _ in range(DRAIN_RETRIES):
            if not cycle.failed or self._parts.clock.wait(self._common.stopping.asked, 1.0):
                break
            cycle = self.drain()
        self.drained = cycle
        self._leave()

    def _leave(self) -> None:
        self.dispatcher.give_back()
        self.dispatcher.rest()
        self.dispatcher.close()

    def _outlast(self) -> None:
        """A lane that ended would leave a worker that looks alive and sends less, or nothing."""
        try:
            self.drain()
        except Exception as error:  # noqa: BLE001 - its rows come back with the end of their lease
            self._common.tally.add("error")
            log.error("a lane could not break off its cycle and begins anew: %s", describe(error))

    def _run(self) -> None:
        while not self._common.stopping.asked.is_set():
            if self._woken.wait(PATIENCE):
                self._woken.clear()
                self._outlast()
                self.idle = not self._woken.is_set()
            if self._parts.clock.monotonic() - self._worked_at >= PATIENCE:
                self.dispatcher.rest()
        self._leave()
