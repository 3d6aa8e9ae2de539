"""TERM and INT as a request to finish: the first one asks, a second one ends the process at once.

The system may hand a signal to any thread, and Python then runs its handler only when the main thread next runs: so
that thread must never wait without end. And what a handler takes a lock for, the main thread may just be holding: so a
handler sets a flag and nothing else.
"""

from __future__ import annotations

import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOOK_EVERY = 0.2  #: seconds that a signal may take to be noticed


class Call:
    """Whether a signal came, or the parent is gone. May be asked and waited for by every thread.

    ``parent`` is the reading end of a pipe whose other end only a supervising parent holds, and never writes to.
    """

    def __init__(self, parent: int | None = None) -> None:
        self.came = False
        self._parent = parent
        self._never = threading.Event()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits at most so long, or until a signal comes; whether one came."""
        end = None if seconds is None else time.monotonic() + seconds
        while not self.came and not self._orphaned():
            left = LOOK_EVERY if end is None else end - time.monotonic()
            if left <= 0:
                break
            self._never.wait(min(left, LOOK_EVERY))
        return self.came

    def _orphaned(self) -> bool:
        if self._parent is not None and select.select([self._parent], [], [], 0)[0]:
            self.came = True
        return self.came


@contextmanager
def finishing(parent: int | None = None) -> Iterator[Call]:
    """Catches the first signal. Outside the main thread none ever comes: signals are somebody else's."""
    call = Call(parent)
    if threading.current_thread() is not threading.main_thread():
        yield call
        return

    def called(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        call.came = True

    before = {number: signal.signal(number, called) for number in SIGNALS}
    try:
        yield call
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
