"""What a test opens it closes: descriptors and threads that are left over fail the test that left them.

Left to the collector they would fail another test, at some later moment, with a warning that names neither.
"""

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import until

DESCRIPTORS = Path("/proc/self/fd")
#: Seconds in which what was told to end must have ended: threads of servers, connections closed from the other side.
PATIENCE = 10.0
#: What libraries keep for themselves (event loops, process pools); it warns nobody later.
INNER = ("pipe:", "anon_inode:")

Held = frozenset[str]


def held() -> Held:
    """Every open socket and file (where the system lists them) and every thread of this process."""
    return frozenset([*_descriptors(), *_threads()])


def _threads() -> Iterator[str]:
    for thread in threading.enumerate():
        yield f"thread {thread.name} ({id(thread):x})"


def _descriptors() -> Iterator[str]:
    for name in os.listdir(DESCRIPTORS) if DESCRIPTORS.is_dir() else ():
        try:
            what = os.readlink(DESCRIPTORS / name)
        except FileNotFoundError:  # the list's own, closed by now
            continue
        if not what.startswith(INNER):
            yield f"descriptor {name} {what}"


class Leaks:
    """``kept``: what fixtures of a wider scope have opened; they close it themselves."""

    def __init__(self) -> None:
        self.kept: Held = frozenset()

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Around the set-up of such a fixture."""
        before = held()
        try:
            yield
        finally:
            self.kept |= held() - before

    def since(self, before: Held) -> list[str]:
        """What was opened after ``before`` and is open yet, sorted; empty once nothing is."""
        if self._left(before):
            # A pool that only a cycle of references holds is gone with it, once no thread uses it any more.
            until(lambda: gc.collect() >= 0 and not self._left(before), seconds=PATIENCE, every=0.1)
        return sorted(self._left(before))

    def _left(self, before: Held) -> Held:
        return held() - before - self.kept
