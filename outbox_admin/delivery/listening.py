"""LISTEN on PostgreSQL: one connection of its own by which producers wake this worker. Polling goes on beside it.

Behind a pooler LISTEN succeeds and nothing ever arrives. So the worker sends itself a NOTIFY over another connection,
at the start and each minute, and takes for granted only what it hears.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from outbox_admin.db.store import notices
from outbox_admin.delivery.common import Stopping
from outbox_admin.delivery.faults import describe
from outbox_admin.delivery.parts import Parts, Wakeup
from outbox_admin.errors import ConfigurationError

ON_SQLITE = (
    "a worker on SQLite cannot insist on NOTIFY (OUTBOX_WAKEUP=notify); remove that: it polls, and producers in its "
    "own process wake it."
)
LISTENING = "listening: a NOTIFY of a producer wakes this worker"
DEAF = (
    "a NOTIFY to itself did not arrive within %g s (poolers swallow them): the worker polls; give it a direct "
    "connection to be woken, or OUTBOX_WAKEUP=poll"
)
LOST = "the connection on which the worker listens failed, it polls until there is another: %s"

#: What a producer says; all else is the echo of some worker.
PRODUCERS = ""

log = logging.getLogger("outbox_admin.delivery")


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds: an echo may take, pass between two, and are waited before another connection is tried.

    ``tick``: how long it may take to notice that the worker stops.
    """

    echo: float = 1.0
    every: float = 60.0
    first: float = 1.0
    last: float = 30.0
    tick: float = 0.5


class _Deaf(Exception):
    pass


def listener(parts: Parts, stopping: Stopping, ring: Callable[[], None]) -> Listener | None:
    """None where the worker only polls. Raises :class:`ConfigurationError` where it cannot do what it was told."""
    wish = parts.rules.wakeup
    if parts.engine.dialect.name != "postgresql":
        if wish is Wakeup.NOTIFY:
            raise ConfigurationError(ON_SQLITE)
        return None
    return None if wish is Wakeup.POLL else Listener(parts, stopping, ring)


class Listener:
    """``ring`` is called for whatever arrives, and when something may have been missed."""

    def __init__(
        self, parts: Parts, stopping: Stopping, ring: Callable[[], None], *, pace: Pace | None = None
    ) -> None:
        self._parts = parts
        self._stopping = stopping.asked
        self._ring = ring
        self._pace = pace or Pace()
        self._again = self._pace.first
        self._said = ""
        self._thread = threading.Thread(target=self._run, name="outbox-listener", daemon=True)

    @property
    def hears(self) -> bool:
        """Whether the last echo arrived, over a connection that stands."""
        return self._said == LISTENING

    def start(self) -> None:
        self._thread.start()

    def join(self, seconds: float) -> None:
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._listen()
            except _Deaf:
                # One that is missed once may have been late; a pooler will not change its ways soon.
                pause = self._pace.every if self._said == DEAF else self._pace.first
                self._say(DEAF, self._pace.echo, level=logging.INFO)
            except Exception as error:  # noqa: BLE001 - polling goes on, and so do the tries to listen
                pause, self._again = self._again, min(self._again * 2, self._pace.last)
                self._say(LOST, describe(error), level=logging.WARNING)
            else:
                return
            self._stopping.wait(pause)

    def _listen(self) -> None:
        """Until the worker stops. Raises what ends it before."""
        with closing(self._connect()) as line:
            while not self._stopping.is_set():
                self._hear_echo(line)
                self._hear(line, until=time.monotonic() + self._pace.every)

    def _connect(self) -> Any:
        """The driver's connection, taken out of the pool. Only psycopg gives notifications with a time limit."""
        with self._parts.engine.begin() as db:
            channel = notices.channel(db)
        pooled = self._parts.engine.raw_connection()
        line: Any = pooled.driver_connection
        pooled.detach()
        try:
            line.autocommit = True
            line.cursor().execute(f'LISTEN "{channel}"')
        except BaseException:
            line.close()
            raise
        return line

    def _hear_echo(self, line: Any) -> None:
        """By a word of its own: behind a pooler what somebody else has said before may come along with LISTEN."""
        word, until = self._parts.token().hex, time.monotonic() + self._pace.echo
        with self._parts.engine.begin() as db:
            notices.call(db, word)
        while word not in _words(line, max(0.0, until - time.monotonic())):
            if time.monotonic() >= until:
                raise _Deaf
        self._again = self._pace.first
        self._say(LISTENING, level=logging.INFO)
        self._ring()  # whatever came before is found now

    def _hear(self, line: Any, *, until: float) -> None:
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            if PRODUCERS in _words(line, min(left, self._pace.tick)):
                self._ring()

    def _say(self, text: str, *values: object, level: int) -> None:
        """Once, until it is something else. Who insisted on being woken is told as loudly as can be."""
        if self._said == text:
            return
        self._said = text
        insists = self._parts.rules.wakeup is Wakeup.NOTIFY and text != LISTENING
        log.log(logging.CRITICAL if insists else level, text, *values)


def _words(line: Any, seconds: float) -> list[str]:
    """Whatever arrives together, as soon as it does; nothing after so many seconds."""
    return [notice.payload for notice in line.notifies(timeout=seconds, stop_after=1)]
