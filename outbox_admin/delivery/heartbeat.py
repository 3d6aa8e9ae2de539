"""A worker's sign of life: one row, written every ten seconds by a thread of its own.

The console and the metrics learn from it who works, with which keys, and what stands still.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from outbox_admin.delivery.aside import within
from outbox_admin.delivery.faults import describe

EVERY = 10.0  #: seconds
LAST_WORD = 1.0  #: seconds that an ending worker waits for its database to hear of it

log = logging.getLogger("outbox_admin.delivery")


class Heartbeat:
    """Calls ``beat`` until it is ended; a beat that fails is only logged."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """And says the last word; a beat under way is waited for, so that it cannot contradict."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(LAST_WORD)
        within(LAST_WORD, [self.beat])

    def _run(self) -> None:
        self.beat()
        while not self._ended.wait(EVERY):
            self.beat()

    def beat(self) -> None:
        """Once, now."""
        try:
            self._beat()
        except Exception as error:  # noqa: BLE001 - a worker that falls silent is taken for lost
            log.warning("no heartbeat: %s", describe(error))
