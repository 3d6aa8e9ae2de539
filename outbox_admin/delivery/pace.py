"""How many rows a lane asks for, and how many it marks at a time. Arithmetic over what it has just seen."""

from __future__ import annotations

#: A lane claims what it can begin within this many seconds (E10).
REACH = 2.0


class Pace:
    """Grows 1, 2, 4 … to ``batch`` while claims come back full and the relay is fast enough.

    ``window`` None: one row, unless the last two claims were full at the batch size; then a whole batch.
    """

    def __init__(self, *, batch: int, window: int | None) -> None:
        self._batch = batch
        self._window = window
        self._size = 1
        self._full_batches = 0

    @property
    def size(self) -> int:
        """Rows to ask for now."""
        return self._size

    @property
    def window(self) -> int:
        """Rows to mark at a time."""
        if self._window is not None:
            return self._window
        return self._batch if self._full_batches >= 2 else 1

    def note(self, *, asked: int, got: int, seconds: float) -> None:
        """``seconds`` is the time from the claim to the last recorded result."""
        full = got >= asked
        self._full_batches = self._full_batches + 1 if full and asked >= self._batch else 0
        wanted = asked * 2 if full else asked
        reachable = int(got * REACH / seconds) if seconds > 0 and got else wanted
        self._size = max(1, min(wanted, reachable, self._batch))
