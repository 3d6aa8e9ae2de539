"""One process's idea of the time: the database's clock, carried forward by the own monotonic clock.

A host whose clock is ten minutes wrong must neither send early nor reclaim the rows of others, so what is stored and
compared comes from the database. Leases are judged by the monotonic clock alone. Nothing here reads the host's clock
by itself: the sources are given.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import sqlalchemy as sa

#: Waits for the event, so many seconds at most; whether it came.
Wait = Callable[[threading.Event, float], bool]
#: Reads the time as the database sees it, over a connection that is open anyway.
Source = Callable[[sa.Connection], datetime]


def database_time(host: Callable[[], datetime]) -> Source:
    """PostgreSQL's own clock; on SQLite, which has none, that of ``host``."""

    def read(db: sa.Connection) -> datetime:
        if db.dialect.name != "postgresql":
            return host()
        moment: datetime = db.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        return moment.astimezone(UTC)

    return read


_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)
#: Seconds since the machine started, the time that it slept included where the system counts that: a lease goes on
#: while a laptop or a paused machine sleeps; a clock that slept with it would think it still good.
ticking: Callable[[], float] = time.monotonic if _BOOT is None else partial(time.clock_gettime, _BOOT)


class Clock:
    """Aware UTC for statements, seconds for leases.

    Until the first :meth:`read` it follows the host's clock. One clock serves all threads of a process: what they
    share is a single assignment.
    """

    def __init__(
        self,
        *,
        source: Source,
        host: Callable[[], datetime],
        monotonic: Callable[[], float],
        wait: Wait = threading.Event.wait,
    ) -> None:
        self._source = source
        #: Seconds that only ever grow.
        self.monotonic = monotonic
        self._wait = wait
        self._origin = host() - timedelta(seconds=monotonic())
        self._compared = False

    def now(self) -> datetime:
        """The database's time, to the accuracy of the last reading."""
        return self._origin + timedelta(seconds=self.monotonic())

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Waits at most so long; whether the event has come."""
        return self._wait(event, seconds)

    def read(self, db: sa.Connection) -> datetime:
        """Compares with the database, whose answer belongs to some moment between the question and its arrival.

        What is known already stays where the answer allows it, so that one slow answer spoils nothing.
        """
        asked = self.monotonic()
        moment = self._source(db)
        answered = self.monotonic()
        latest, earliest = moment - timedelta(seconds=asked), moment - timedelta(seconds=answered)
        known = self._origin if self._compared else earliest + (latest - earliest) / 2
        self._origin, self._compared = min(max(known, earliest), latest), True
        return self.now()
