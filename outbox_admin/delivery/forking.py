"""Start something once in every process that serves, and in none that only forks.

A server that preloads imports the application in a master, which forks its workers from it: threads begun there would
be missing in the children. Other servers import it in each worker and fork no more. Both are served: what is to be
started waits until a second has passed without a fork; a process that forks starts nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

#: Seconds to wait for a fork.
DELAY = 1.0


class AfterFork:
    """``start`` runs at most once in a process, and not in the children of a process in which it has run."""

    def __init__(self, start: Callable[[], object], *, delay: float = DELAY) -> None:
        self._start = start
        self._delay = delay
        self._lock = threading.Lock()
        self._started = False
        self._is_master = False

    def arm(self) -> None:
        """From now on a fork, or the absence of one, decides."""
        os.register_at_fork(after_in_parent=self._in_master, after_in_child=self._in_child)
        self._wait()

    def _wait(self) -> None:
        timer = threading.Timer(self._delay, self._begin)
        timer.name, timer.daemon = "outbox-start", True
        timer.start()

    def _begin(self) -> None:
        with self._lock:
            if self._started or self._is_master:
                return
            self._started = True
        self._start()

    def _in_master(self) -> None:
        self._is_master = True

    def _in_child(self) -> None:
        """Threads did not come along, and the lock may have been held by one of them."""
        self._lock = threading.Lock()
        self._is_master = False
        if not self._started:
            self._wait()
