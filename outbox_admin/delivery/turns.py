"""A lane's turn on a route that has a rate: reserved before the hand-over is marked, used at the first octet.

The envelope takes its time, so it is begun early enough to end about when its slot comes; where it ends early the lane
waits, and where it ends late the slot is void and another one is taken. A route without a rate costs nothing here.
"""

from __future__ import annotations

import logging
from datetime import datetime

from outbox_admin.core.rate import FURTHEST, Limit, Slot
from outbox_admin.db.store import slots
from outbox_admin.delivery.common import Stopping
from outbox_admin.delivery.faults import describe
from outbox_admin.delivery.parts import Parts

#: A lane that got no slot within so many seconds lets go of its rows: others may be nearer to theirs.
PATIENCE = 30.0
#: How far ahead, in seconds, a slot is reserved beside the time that the envelope takes.
AHEAD = 2.0
#: The time of an envelope that was slow once is forgotten by this factor with each one after it.
FADING = 0.8

log = logging.getLogger("outbox_admin.delivery")


class Turns:
    """Used by one thread. Waiting ends when the worker stops."""

    def __init__(self, parts: Parts, stopping: Stopping) -> None:
        self._parts = parts
        self._stopping = stopping
        self._limits = {route.name: route.limit for route in parts.routes if route.limit is not None}
        self._slot: Slot | None = None
        self._envelope = 0.0
        self._began = 0.0
        #: Of the present hand-over, by :meth:`take`: no turn was given, the content was never begun.
        self.withheld = False
        #: And the contrary; read by other threads. After a cut it becomes true no more.
        self.begun = False

    @property
    def limited(self) -> bool:
        """Whether any route has a rate."""
        return bool(self._limits)

    def reserve(self, route: str) -> bool:
        """Before the mark: waits until it is time to begin the envelope. False: begin nothing, let go of the rows."""
        limit = self._limits.get(route)
        if limit is None:
            return True
        end = self._now() + PATIENCE
        while not isinstance(slot := self._ask(route, limit, AHEAD + self._envelope), Slot):
            left = end - self._now()
            if left <= 0 or self._wait(min(left, self._until(slot))):
                return False
        self._slot = slot
        stopped = self._wait(self._until(slot.at) - self._envelope)
        self._began = self._now()
        return not stopped

    def start(self) -> None:
        """A hand-over begins, of which nothing is known yet."""
        self.withheld = self.begun = False

    def take(self, route: str) -> bool:
        """Directly before the content: waits for the slot. False: nothing may be sent, :attr:`withheld` says so too."""
        limit = self._limits.get(route)
        in_time = True
        if limit is not None:
            self._envelope = max(self._now() - self._began, self._envelope * FADING)
            in_time = self._in_slot(route, limit)
            self._slot = None
        self.withheld = not in_time or self._stopping.cut.is_set()
        self.begun = not self.withheld
        return self.begun

    def _in_slot(self, route: str, limit: Limit) -> bool:
        end = self._now() + FURTHEST
        while not self._is_now(self._slot, limit):
            if self._stopping.cut.is_set() or self._now() >= end:
                return False
            if (slot := self._another(route, limit)) is None:
                return False
            self._slot = slot
        return True

    def _is_now(self, slot: Slot | None, limit: Limit) -> bool:
        """Waits for its moment; False when that has passed, or lies where only another clock can have put it."""
        if slot is None:
            return False
        early = self._until(slot.at)
        if early > FURTHEST or (early > 0 and self._parts.clock.wait(self._stopping.cut, early)):
            return False
        return -self._until(slot.at) <= limit.usable

    def _another(self, route: str, limit: Limit) -> Slot | None:
        """The relay waits for our content meanwhile: what goes wrong must not leave this place as an exception."""
        try:
            slot = self._ask(route, limit, FURTHEST)
        except Exception as error:  # noqa: BLE001 - the message is released and goes later
            log.warning("no send slot on route %s: %s", route, describe(error))
            return None
        return slot if isinstance(slot, Slot) else None

    def _ask(self, route: str, limit: Limit, ahead: float) -> Slot | datetime:
        with self._parts.engine.begin() as db:
            return slots.take(db, route=route, limit=limit, now=self._parts.clock.now(), ahead=ahead)

    def _wait(self, seconds: float) -> bool:
        """True when the worker stops."""
        return self._parts.clock.wait(self._stopping.asked, max(0.0, seconds))

    def _until(self, moment: datetime) -> float:
        return (moment - self._parts.clock.now()).total_seconds()

    def _now(self) -> float:
        return self._parts.clock.monotonic()
