"""TERM and INT as a request to finish: the first one asks, a second one ends the process at once."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def finishing(ask: Callable[[], None]) -> Iterator[None]:
    """Calls ``ask`` at the first signal. Outside the main thread it does nothing: signals are somebody else's."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def called(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        # Not here: the main thread may be inside the very lock that `ask` takes, and would wait for itself.
        _thread.start_new_thread(ask, ())

    before = {number: signal.signal(number, called) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
