"""The loop around the lanes: one poller that wakes them, upkeep, the heartbeat, draining and stopping.

Nothing here touches a message. A worker is made in the process that runs it, after any fork.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Sequence

from outbox_admin import wakeup
from outbox_admin.core import health
from outbox_admin.db.store import workers
from outbox_admin.delivery.aside import ended_before, within
from outbox_admin.delivery.common import Common
from outbox_admin.delivery.heartbeat import Heartbeat
from outbox_admin.delivery.lanes import Lane
from outbox_admin.delivery.listening import listener
from outbox_admin.delivery.parts import Parts
from outbox_admin.delivery.patience import until_it_answers
from outbox_admin.delivery.place import Place
from outbox_admin.delivery.poller import Poller
from outbox_admin.delivery.reports import Condition, Drained
from outbox_admin.delivery.sign import Sign
from outbox_admin.delivery.signals import Call, finishing
from outbox_admin.delivery.upkeep import Upkeep

STUCK_AFTER = health.STUCK_AFTER.total_seconds()
#: Seconds after the grace for the lanes to tell what they know of hand-overs that were cut off; and until the rest is
#: given back, for which REST_LEAST are left in any case. With the poller's end and the last word (two) a grace of 25 s
#: is over after 29.6: gunicorn kills after 30, and does not ask what was still being written.
ABORT_LIMIT, REST_LIMIT, REST_LEAST, POLLER_LEAST = 1.5, 2.5, 1.0, 0.1

__all__ = ["Condition", "Drained", "Worker"]

log = logging.getLogger("outbox_admin.delivery")


class Worker:
    """``kind``: worker, gunicorn or embedded. :meth:`start` and :meth:`stop` once each, or :meth:`drain` once.

    ``paused``: it sends nothing until an operator says so (``outbox-admin resume``). ``parent``: see signals.Call.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        lanes: int = 1,
        kind: str = "worker",
        paused: bool = False,
        parent: int | None = None,
    ) -> None:
        self.parts = parts
        self.host = socket.gethostname()
        token = parts.token()
        self.name = f"{self.host}:{os.getpid()}:{token.hex[:8]}"
        self._parent = parent
        self.common = Common(parts)
        # Workers begin at different shards: else the first lanes of all would wait for one another's counts.
        self.lanes = [
            Lane(parts, self.common, Place(self.name, token.int + number), pass_on=self._wake_lane)
            for number in range(lanes)
        ]
        self._sign = Sign(parts, self.common, self.lanes, self.name, self.host, kind)
        self._heartbeat = Heartbeat(self._beat)
        self._poller = Poller(parts, self.common, self.lanes, turn=self._turn, wake_lane=self._wake_lane)
        self.upkeep = Upkeep(parts, self.common, paused=paused, between=self._poller.attend)
        self._listener = listener(parts, self.common.stopping, self._poller.ring)
        self._deafen: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Starts the threads and returns. Raises :class:`ConfigurationError` where the keys do not fit the database."""
        self._open()
        self._set_going()

    def wake(self) -> None:
        """Does at once what is done at the end of the cycle."""
        self._poller.hurry()

    def drain(self) -> Drained:
        """Works off what is due and returns, at a signal sooner; for a worker that was not started."""
        with finishing(self._parent) as call:
            self._open()
            self.upkeep.round()
            for lane in self.lanes:
                lane.start_draining()
            while any(lane.alive for lane in self.lanes) and not call.wait(0.05):
                pass
            if call.came:
                self.stop()
            else:
                self.upkeep.purge(busy=False)
                self._close()
            return self._drained()

    def stop(self, grace: float | None = None) -> None:
        """Finishes what is in hand and releases the rest at once.

        After ``grace`` seconds (the rules' ``stop_grace``) a hand-over that is still open is cut off, and recorded as
        Unknown where its content may have arrived. A database that hangs is left behind. A second call does nothing.
        """
        if self._sign.closed:
            return
        stopping, clock = self.common.stopping, self.parts.clock
        end = clock.monotonic() + (self.parts.rules.stop_grace if grace is None else grace)
        stopping.asked.set()
        self._deafen()
        self._poller.ring()
        for lane in self.lanes:
            lane.wake()
        within(max(1.0, end - clock.monotonic()), [lane.release_waiting for lane in self.lanes])
        late = self._running(self.lanes, until=end)
        stopping.cut.set()
        for lane in late:
            lane.dispatcher.abort()
        late = self._running(late, until=end + ABORT_LIMIT)
        stopping.over.set()
        within(max(REST_LEAST, end + REST_LIMIT - clock.monotonic()), [lane.abandon for lane in late])
        if self._listener is not None:
            self._listener.join(max(0.0, end + REST_LIMIT - clock.monotonic()))
        self._poller.join(max(POLLER_LEAST, end + REST_LIMIT - clock.monotonic()))
        self._close()

    def run(self, before: Callable[[], object] = lambda: None) -> int:
        """Starts, waits for TERM or INT, stops; the exit code. A second signal ends the process at once.

        ``before`` is done first, again and again as long as the database does not answer.
        """
        with finishing(self._parent) as call:
            if ended_before(call, lambda: self._open_at_last(before, call)):
                self._set_going()
                call.wait()
            log.info("stopping: what is in hand is finished, the rest is released")
            self.stop()
        return 0

    def condition(self) -> Condition:
        threads = [self._poller.alive, *(lane.alive for lane in self.lanes)]
        return Condition(alive=all(threads), stuck=self._stuck(), opened=self.upkeep.opened)

    def _open_at_last(self, before: Callable[[], object], call: Call) -> None:
        if until_it_answers(before, call):
            self._open()

    def _open(self) -> None:
        self._sign.started_at = self.parts.clock.now()
        self.upkeep.open()
        self._heartbeat.start()

    def _set_going(self) -> None:
        for lane in self.lanes:
            lane.start()
        self._poller.start()
        self._deafen = wakeup.register(self.parts.engine, self._poller.ring)
        if self._listener is not None:
            self._listener.start()

    def _close(self) -> None:
        if not self._sign.closed:
            self._sign.closed = True
            self._heartbeat.end()

    @staticmethod
    def _running(lanes: Sequence[Lane], *, until: float) -> list[Lane]:
        """Those that have not ended by then."""
        return [lane for lane in lanes if not lane.ends_by(until)]

    def _turn(self) -> None:
        """Upkeep first: what it takes back is found by the lane that is woken then."""
        self.upkeep.round()
        for lane in self.lanes:
            if lane.doubtful and lane.idle:
                lane.wake()
        self._wake_lane()
        self._sign.cycled_at = self.parts.clock.now()
        self.upkeep.purge(busy=any(not lane.idle for lane in self.lanes))

    def _wake_lane(self) -> None:
        """One that sleeps; those that work find the rest themselves."""
        idle = next((lane for lane in self.lanes if lane.idle), None)
        if idle is not None:
            idle.wake()

    def _stuck(self) -> bool:
        now = self.parts.clock.monotonic()
        return any(lane.holding and now - lane.progressed_at > STUCK_AFTER for lane in self.lanes)

    def _beat(self) -> None:
        for lane in self.lanes:
            lane.renew_long_handover()
        with self.parts.engine.begin() as db:
            workers.beat(db, self._sign.now(), now=self.parts.clock.now())

    def _drained(self) -> Drained:
        tally, ended = self.common.tally, [lane.drained for lane in self.lanes if lane.drained is not None]
        return Drained(
            accepted=tally.of("accepted"),
            rejected=tally.of("rejected"),
            deferred=tally.of("deferred", "unknown", "undeliverable"),
            faults=tally.of("channel_fault"),
            paused=any(cycle.paused for cycle in ended),
            failed=(len(ended) < len(self.lanes) and not self.common.stopping.asked.is_set())
            or any(cycle.failed for cycle in ended),
            halted=self.common.halted,
        )
