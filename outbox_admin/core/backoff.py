"""How long to wait before the next attempt. Arithmetic only; the dice come in as a number."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds: ``min(base * 2**(n-1), cap) * (1 + roll * jitter)``. The cap comes before the jitter."""

    base: float = 10.0
    cap: float = 3600.0
    jitter: float = 0.25

    def delay(self, attempt: int, *, roll: float) -> float:
        """Seconds to wait after ``attempt`` (from 1) failed; ``roll`` in [0, 1). Never overflows."""
        doublings = min(max(attempt, 1) - 1, 64)
        return min(self.base * 2.0**doublings, self.cap) * (1.0 + roll * self.jitter)
