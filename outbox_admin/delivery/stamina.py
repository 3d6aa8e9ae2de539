"""How many messages a relay takes on one connection, learned from how its connections end. Arithmetic only."""

from __future__ import annotations

_PROMPT = (
    2.0  # seconds: a connection that ends so soon after a message was ended for their number, not for idling
)
_FORGET = 600.0  # seconds: a chance coincidence must not shorten connections for ever


class Stamina:
    """Believes a number when two connections in a row end at it; times are readings of one monotonic clock."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._limit: int | None = None
        self._until = 0.0

    def note_end(self, *, uses: int, idle: float, now: float) -> None:
        """The relay ended a connection after ``uses`` messages, found ``idle`` seconds after the last one."""
        if idle > _PROMPT:
            return
        if uses == self._last:
            self._limit, self._until = uses, now + _FORGET
        self._last = uses

    def is_spent(self, *, uses: int, now: float) -> bool:
        """Whether a connection had better be left politely before its next message."""
        return self._limit is not None and now < self._until and uses >= self._limit
