"""When a worker that waits looks for mail again. Pure: seconds of one monotonic clock come in, nothing waits here.

Without a word from anybody it looks often after it had work, then less and less, down to once a cycle, a little earlier
by chance: processes that were started together do not go on looking together. A wake is answered by several looks, for
it comes as the commit begins.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

#: Seconds after a wake at which it looks (E40).
AFTER_WAKE = (0.0, 0.005, 0.020)
#: Looks are at least so many seconds apart, however often somebody wakes and however many rows become due.
GAP = 0.005
#: The first pause after work or a wake, in seconds; each further one is twice as long.
SHORTEST = 0.05
#: The largest part of a cycle that chance takes off.
JITTER = 0.25


class Rhythm:
    """Used by one thread. A *turn* is a cycle's whole work, a *look* only asks whether there is any."""

    def __init__(self, *, cycle: float, roll: Callable[[], float], now: float) -> None:
        self._cycle = cycle
        self._roll = roll
        self._turn_at = now
        self._look_at = inf
        self._looked_at = -inf
        self._pause = SHORTEST
        self._answers: list[float] = []
        self._again = False

    @property
    def next_at(self) -> float:
        """The moment of the next turn or look."""
        return min(self._turn_at, self._look_at, *self._answers[:1])

    @property
    def answering(self) -> bool:
        """The looks after a wake are under way: another wake needs no attention before they are over."""
        return bool(self._answers)

    def wants_answer(self, now: float) -> bool:
        return any(moment <= now for moment in self._answers)

    def wants_turn(self, now: float) -> bool:
        return now >= self._turn_at

    def hurry(self, now: float) -> None:
        """The next turn is now."""
        self._turn_at = now

    def wake(self, now: float) -> None:
        """There may be mail."""
        if self._answers:
            self._again = True
            return
        first = max(now, self._looked_at + GAP)
        self._answers = [first + seconds for seconds in AFTER_WAKE]

    def looked(
        self, began: float, ended: float, *, busy: bool, found: bool = False, due_in: float | None = None
    ) -> None:
        """``busy``: there was work since the last look. ``found``: somebody was sent to do some, who goes on until
        nothing is left. ``due_in``: seconds until a row that is known becomes due.
        """
        self._looked_at = ended
        answered, self._answers = self._answers, [moment for moment in self._answers if moment > began]
        if found:
            self._answers = self._answers[-1:]  # the last one still: it may have been somebody else's mail
        if self._again and not self._answers:
            self._again = False
            self._answers = [began + seconds for seconds in AFTER_WAKE[1:]]
        self._answers = [max(moment, ended + GAP) for moment in self._answers]
        self._pause = SHORTEST if busy or answered else self._pause * 2
        self._look_at = ended + (self._pause if self._pause < self._cycle else inf)
        if due_in is not None:
            self._look_at = min(self._look_at, ended + max(due_in, GAP))

    def failed(self) -> None:
        """The database did not answer: it is asked again by the next turn."""
        self._answers, self._again, self._look_at = [], False, inf

    def turned(self, ended: float) -> None:
        self._turn_at = ended + self._cycle * (1 - JITTER * self._roll())
