"""A clock that moves only when it is told to. No test reads the wall clock for its times."""

import threading
from datetime import UTC, datetime, timedelta


class FakeClock:
    """Starts half a minute ahead, so that a row stamped by a database's own clock is already due."""

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=30)
        #: One value for both readings: a thread that saw one of them leap before the other would time out at once.
        self._elapsed = timedelta(0)
        self._leads = start is None

    def __call__(self) -> datetime:
        return self.now()

    def now(self) -> datetime:
        return self._start + self._elapsed

    def monotonic(self) -> float:
        return 1000.0 + self._elapsed.total_seconds()

    def advance(self, **span: float) -> datetime:
        """Takes what timedelta takes: `clock.advance(minutes=6)`."""
        self._elapsed += timedelta(**span)
        return self.now()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Stands in for a wait that an event may end: time passes, nobody waits."""
        self.advance(seconds=seconds)
        return event.is_set()

    def stay_ahead(self, seconds: float = 5.0) -> None:
        """Of the clock by which a database dates its rows: what a slow machine has written is due all the same.

        One that was set to a moment stays there.
        """
        if not self._leads:
            return
        behind = datetime.now(UTC) + timedelta(seconds=seconds) - self.now()
        self.advance(seconds=max(0.0, behind.total_seconds()))

    def sleep(self, seconds: float) -> None:
        """Stands in where a wait is injected: time passes, nobody waits."""
        self.advance(seconds=seconds)
