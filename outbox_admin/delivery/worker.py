"""The loop around the lanes: one poller that wakes them, upkeep, the heartbeat, draining and stopping.

Nothing here touches a message. A worker is made in the process that runs it, after any fork.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterable
from datetime import datetime, timedelta
from importlib.metadata import version

from outbox_admin.core import health
from outbox_admin.db.store import workers
from outbox_admin.delivery.claiming import Place
from outbox_admin.delivery.common import Common
from outbox_admin.delivery.dispatcher import Cycle
from outbox_admin.delivery.faults import describe
from outbox_admin.delivery.heartbeat import Heartbeat
from outbox_admin.delivery.lanes import Lane
from outbox_admin.delivery.parts import Parts
from outbox_admin.delivery.reports import Condition, Drained
from outbox_admin.delivery.signals import finishing
from outbox_admin.delivery.upkeep import Upkeep

STUCK_AFTER = health.STUCK_AFTER.total_seconds()
#: How often a drain asks a database again that did not answer, a second apart.
DRAIN_RETRIES = 5
#: Seconds for all lanes to tell what they know of hand-overs that were cut off.
ABORT_LIMIT = 1.0

__all__ = ["Condition", "Drained", "Worker"]

log = logging.getLogger("outbox_admin.delivery")


class Worker:
    """``kind``: worker, gunicorn or embedded. :meth:`start` and :meth:`stop` once each, or :meth:`drain` once."""

    def __init__(self, parts: Parts, *, lanes: int = 1, kind: str = "worker") -> None:
        self.parts = parts
        self.kind = kind
        self.host = socket.gethostname()
        self.name = f"{self.host}:{os.getpid()}:{parts.token().hex[:8]}"
        self.common = Common(parts)
        self.upkeep = Upkeep(parts, self.common)
        self.lanes = [
            Lane(parts, self.common, Place(self.name, number), pass_on=self._wake_lane)
            for number in range(lanes)
        ]
        self._heartbeat = Heartbeat(self._beat)
        self._poller = threading.Thread(target=self._poll, name="outbox-poller", daemon=True)
        self._woken = threading.Event()
        self._started_at: datetime | None = None
        self._cycled_at: datetime | None = None
        self._closed = False

    def start(self) -> None:
        """Starts the threads and returns. Raises :class:`ConfigurationError` where the keys do not fit the database."""
        self._open()
        for lane in self.lanes:
            lane.start()
        self._poller.start()

    def wake(self) -> None:
        """Looks for due rows at once instead of at the end of the cycle."""
        self._woken.set()

    def drain(self) -> Drained:
        """Works off what is due and returns, at a signal sooner; for a worker that was not started."""
        with finishing(self.common.stopping.asked.set):
            return self._drain()

    def _drain(self) -> Drained:
        self._open()
        self.upkeep.round()
        cycles: list[Cycle] = []
        threads = [
            threading.Thread(target=lambda lane=lane: cycles.append(self._drained_by(lane)), daemon=True)
            for lane in self.lanes
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.upkeep.purge(busy=False)
        for lane in self.lanes:
            lane.dispatcher.rest()
        self._close()
        return self._drained(cycles)

    def stop(self, grace: float | None = None) -> None:
        """Finishes what is in hand and releases the rest at once.

        After ``grace`` seconds (the rules' ``stop_grace``) a hand-over that is still open is cut off, and recorded as
        Unknown where its content may have arrived. A second call does nothing.
        """
        if self._closed:
            return
        end = self.parts.clock.monotonic() + (self.parts.rules.stop_grace if grace is None else grace)
        self.common.stopping.asked.set()
        self._woken.set()
        for lane in self.lanes:
            lane.wake()
            lane.release_waiting()
        ended = [lane.join(end - self.parts.clock.monotonic()) for lane in self.lanes]
        late = [lane for lane, has_ended in zip(self.lanes, ended, strict=True) if not has_ended]
        for lane in late:
            lane.dispatcher.abort()
        end = self.parts.clock.monotonic() + ABORT_LIMIT
        ended = [lane.join(end - self.parts.clock.monotonic()) for lane in late]
        self.common.stopping.over.set()
        for lane, has_ended in zip(late, ended, strict=True):
            if not has_ended:
                lane.abandon()
        self._poller.join(1.0)
        self._close()

    def run(self) -> int:
        """Starts, waits for TERM or INT, stops; the exit code. A second signal ends the process at once."""
        called = threading.Event()
        with finishing(called.set):
            self.start()
            called.wait()
            log.info("stopping: what is in hand is finished, the rest is released")
            self.stop()
        return 0

    def condition(self) -> Condition:
        threads = [self._poller.is_alive(), *(lane.alive for lane in self.lanes)]
        return Condition(alive=all(threads), stuck=self._stuck(), opened=self.upkeep.opened)

    def _open(self) -> None:
        self._started_at = self.parts.clock.now()
        self.upkeep.open()
        self._heartbeat.start()

    def _close(self) -> None:
        self._closed = True
        self._heartbeat.end()

    def _poll(self) -> None:
        while not self.common.stopping.asked.is_set():
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - the loop outlives whatever happens in a turn
                self.common.tally.add("error")
                log.error("a turn of the poller broke off: %s", describe(error))
            self._woken.wait(self.parts.rules.cycle)
            self._woken.clear()

    def _turn(self) -> None:
        """Upkeep first: what it takes back is found by the lane that is woken then."""
        self.upkeep.round()
        for lane in self.lanes:
            if lane.doubtful and lane.idle:
                lane.wake()
        self._wake_lane()
        self._cycled_at = self.parts.clock.now()
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
            workers.beat(db, self._sign(), now=self.parts.clock.now())

    def _sign(self) -> workers.Heartbeat:
        """What this process says of itself now."""
        tally, ring, now = self.common.tally, self.parts.ring, self.parts.clock.now()
        return workers.Heartbeat(
            id=self.name,
            host=self.host,
            pid=os.getpid(),
            kind=self.kind,
            version=VERSION,
            lanes=len(self.lanes),
            started_at=self._started_at or now,
            key_ids=ring.usable_ids,
            state=self._state(),
            last_cycle_at=self._cycled_at,
            last_progress_at=now - timedelta(seconds=self._since_progress()),
            holding=sum(lane.holding for lane in self.lanes),
            accepted=tally.of("accepted"),
            rejected=tally.of("rejected"),
            deferred=tally.of("deferred", "unknown", "undeliverable"),
            faults=tally.of("channel_fault"),
            errors=tally.of("error"),
            breakers=self.common.pauses.shown(now) or None,
            simulating=not self.parts.routes,
            seals_until=ring.sealing_until or now,
            redirect_to=self.parts.redirect_to,
            revoked_ids=ring.revoked_ids,
        )

    def _state(self) -> str:
        if self._closed:
            return workers.STOPPED
        return "draining" if self.common.stopping.asked.is_set() else "active"

    def _since_progress(self) -> float:
        """Seconds since the last completed cycle or recorded result."""
        holding = [lane.progressed_at for lane in self.lanes if lane.holding]
        moved = min(holding) if holding else max(lane.progressed_at for lane in self.lanes)
        return self.parts.clock.monotonic() - moved

    def _drained_by(self, lane: Lane) -> Cycle:
        """A database that does not answer is asked again a few times: nobody else comes back for what is due."""
        cycle = lane.drain()
        for _ in range(DRAIN_RETRIES):
            if not cycle.failed or self.common.stopping.asked.wait(1.0):
                break
            cycle = lane.drain()
        return cycle

    def _drained(self, cycles: Iterable[Cycle]) -> Drained:
        tally, ended = self.common.tally, list(cycles)
        return Drained(
            accepted=tally.of("accepted"),
            rejected=tally.of("rejected"),
            deferred=tally.of("deferred", "unknown", "undeliverable"),
            faults=tally.of("channel_fault"),
            paused=any(cycle.paused for cycle in ended),
            failed=len(ended) < len(self.lanes) or any(cycle.failed for cycle in ended),
        )


VERSION = version("outbox-admin")
