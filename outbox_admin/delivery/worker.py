"""The loop around the dispatcher: lanes, the poller that wakes them, the heartbeat, draining and stopping."""

from __future__ import annotations

from dataclasses import dataclass

from outbox_admin.delivery.parts import Parts


@dataclass(frozen=True, slots=True)
class Condition:
    """How a worker is: ``stuck`` means that it holds rows and has recorded nothing for too long (E20)."""

    alive: bool
    stuck: bool


@dataclass(frozen=True, slots=True)
class Drained:
    """What one drain did, by outcome; ``paused`` when a route's pause ended it."""

    accepted: int
    rejected: int
    deferred: int
    faults: int
    paused: bool


class Worker:
    """``kind``: worker, gunicorn or embedded."""

    def __init__(self, parts: Parts, *, lanes: int = 1, kind: str = "worker") -> None:
        self.parts = parts
        self.lanes = lanes
        self.kind = kind

    def start(self) -> None:
        """Starts the threads and returns."""
        raise NotImplementedError

    def wake(self) -> None:
        """Looks for due rows at once instead of at the end of the cycle."""
        raise NotImplementedError

    def drain(self) -> Drained:
        """Works off what is due and returns; for a worker that was not started."""
        raise NotImplementedError

    def stop(self, grace: float | None = None) -> None:
        """Finishes what is in hand, releases the rest at once; after ``grace`` seconds open hand-overs are Unknown."""
        raise NotImplementedError

    def run(self) -> int:
        """Starts, waits for TERM or INT, stops; the exit code. A second signal ends the process at once."""
        raise NotImplementedError

    def condition(self) -> Condition:
        raise NotImplementedError
