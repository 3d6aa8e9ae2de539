"""Moments by which something must have ended, on a monotonic clock that is given. No waiting happens here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """``at`` is a reading of ``clock``, in seconds; ``limit`` is what was allowed, for the account of a failure."""

    at: float
    clock: Callable[[], float]
    limit: float

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float]) -> Deadline:
        return cls(clock() + seconds, clock, seconds)

    def within(self, seconds: float) -> Deadline:
        """The earlier of this one and ``seconds`` from now."""
        at = self.clock() + seconds
        return Deadline(at, self.clock, seconds) if at < self.at else self

    def left(self) -> float:
        """Seconds that remain. Raises TimeoutError when none do."""
        left = self.at - self.clock()
        if left <= 0:
            raise TimeoutError
        return left

    @property
    def has_passed(self) -> bool:
        return self.clock() >= self.at
