"""Whether one relay is spoken to in groups of commands, which its EHLO offers and its answers may prove untrue."""

from __future__ import annotations

import logging

from outbox_admin.core.cause import Phase
from outbox_admin.delivery.greet import Offer

log = logging.getLogger("outbox_admin.delivery")

LOCK_STEP = 600.0  #: seconds without pipelining, after a relay proved unreliable at it


class Grouping:
    """Of the route of this name; times are readings of one monotonic clock."""

    def __init__(self, route: str) -> None:
        self._route = route
        self._until = float("-inf")

    def suits(self, offer: Offer, *, now: float) -> bool:
        """Asked once for each connection."""
        return offer.pipelining and now >= self._until

    def note_fault(self, phase: Phase, *, now: float) -> None:
        """A group met with silence, an end or a reply that cannot belong to it, at this command."""
        self._until = now + LOCK_STEP
        log.warning(
            "relay %s is unreliable at pipelining (%s): one command at a time for %d minutes",
            self._route,
            phase,
            LOCK_STEP / 60,
        )
