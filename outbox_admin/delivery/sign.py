"""What a worker says of itself in its heartbeat, gathered from its lanes and parts. Nothing is stored here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.metadata import version

from outbox_admin.db.store import workers
from outbox_admin.delivery.common import Common
from outbox_admin.delivery.lanes import Lane
from outbox_admin.delivery.parts import Parts

VERSION = version("outbox-admin")


@dataclass(slots=True)
class Sign:
    """One for each worker; ``name`` is its row's id."""

    parts: Parts
    common: Common
    lanes: Sequence[Lane]
    name: str
    host: str
    kind: str
    started_at: datetime | None = None
    cycled_at: datetime | None = None
    closed: bool = field(default=False)

    def now(self) -> workers.Heartbeat:
        tally, ring, now = self.common.tally, self.parts.ring, self.parts.clock.now()
        return workers.Heartbeat(
            id=self.name,
            host=self.host,
            pid=os.getpid(),
            kind=self.kind,
            version=VERSION,
            lanes=len(self.lanes),
            started_at=self.started_at or now,
            key_ids=ring.usable_ids,
            revoked_ids=ring.revoked_ids,
            routes=[route.name for route in self.parts.routes] if self.parts.rules.breaker else (),
            state=self._state(),
            last_cycle_at=self.cycled_at,
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
        )

    def _state(self) -> str:
        if self.closed:
            return workers.STOPPED
        if self.common.stopping.asked.is_set():
            return "draining"
        return self.common.halted or "active"

    def _since_progress(self) -> float:
        """Seconds since the last completed cycle or recorded result."""
        holding = [lane.progressed_at for lane in self.lanes if lane.holding]
        moved = min(holding) if holding else max(lane.progressed_at for lane in self.lanes)
        return self.parts.clock.monotonic() - moved
