"""What a worker answers when it is asked how it is, and what a drain has done. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from outbox_admin.delivery.common import Halt


@dataclass(frozen=True, slots=True)
class Condition:
    """``stuck``: it holds rows and has recorded nothing for too long. ``opened``: database and keys were in order."""

    alive: bool
    stuck: bool
    opened: bool


@dataclass(frozen=True, slots=True)
class Drained:
    """What one drain did, by outcome. ``paused``: a route's pause ended it; ``failed``: the database did.

    ``halted``: nothing may be sent from this database at all.
    """

    accepted: int
    rejected: int
    deferred: int
    faults: int
    paused: bool
    failed: bool
    halted: Halt | None = None
