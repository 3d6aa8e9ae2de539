"""Several worker processes under one parent, which starts anew what dies and takes no part in their work.

The parent opens no database. Each child has the reading end of a pipe whose other end the parent alone holds: closing
it asks all of them to finish, and so does the parent's death, of whatever cause.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outbox_admin.delivery.signals import finishing

#: Seconds until a child that died is started anew: doubling from the first to the last, unless it had lived for long.
PAUSE_FIRST, PAUSE_LAST = 1.0, 30.0
LONG_LIFE = 60.0
#: Seconds beyond the stop grace after which a child is killed.
MARGIN = 10.0
#: What repeating cannot cure: the settings, the key ring or the schema (EX_CONFIG of sysexits.h).
FATAL = 78

log = logging.getLogger("outbox_admin.delivery")


@dataclass(slots=True)
class _Place:
    """One of the children, and its followers."""

    process: subprocess.Popen[bytes]
    started: float
    pause: float = PAUSE_FIRST
    due: float | None = None  #: when a follower starts; None while the child lives


class Processes:
    """``command`` makes a child's command line of the number of its file descriptor of the pipe.

    ``drain``: children end by themselves, and none follows. ``grace``: seconds that a child has to stop.
    """

    def __init__(
        self, command: Callable[[int], Sequence[str]], number: int, *, grace: float, drain: bool = False
    ) -> None:
        self._command = command
        self._number = number
        self._grace = grace
        self._drain = drain
        self._pipe, self._hold = os.pipe()
        self._places: list[_Place] = []

    def run(self) -> int:
        """Until a signal comes, or all have ended; the exit code is the first that is not 0."""
        with finishing() as call:
            self._places = [_Place(self._start(), time.monotonic()) for _ in range(self._number)]
            while not call.wait(0.2):
                for place in self._places:
                    self._look_after(place)
                if self._all_ended() or self._fatal():
                    break
            return self._finish()

    def _start(self) -> subprocess.Popen[bytes]:
        """In a group of its own: an interrupt at the terminal is the parent's to pass on."""
        return subprocess.Popen(  # noqa: S603 - our own program
            self._command(self._pipe), pass_fds=(self._pipe,), process_group=0
        )

    def _look_after(self, place: _Place) -> None:
        code, now = place.process.poll(), time.monotonic()
        if code is None or self._drain or code == FATAL:
            return
        if place.due is None:
            if now - place.started >= LONG_LIFE:
                place.pause = PAUSE_FIRST
            place.due = now + place.pause
            text = "worker process %d ended with %s; another one starts in %g s"
            log.error(text, place.process.pid, _spelled(code), place.pause)
            place.pause = min(place.pause * 2, PAUSE_LAST)
        elif now >= place.due:
            place.process, place.started, place.due = self._start(), now, None

    def _all_ended(self) -> bool:
        return self._drain and all(place.process.poll() is not None for place in self._places)

    def _fatal(self) -> bool:
        return not self._drain and any(place.process.poll() == FATAL for place in self._places)

    def _finish(self) -> int:
        os.close(self._hold)
        end = time.monotonic() + self._grace + MARGIN
        for place in self._places:
            try:
                place.process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.critical("worker process %d did not end; it is killed", place.process.pid)
                place.process.kill()
                place.process.wait()
        os.close(self._pipe)
        ended = [place.process.returncode for place in self._places if place.due is None]
        return next((code if code > 0 else 128 - code for code in ended if code), 0)


def _spelled(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
