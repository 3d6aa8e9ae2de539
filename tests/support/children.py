"""Processes that do not outlive the test that started them, however it ends; nor do their own children."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def child(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Runs ``command`` with the options of Popen. At the end whatever is left of its group is killed.

    In a session of its own, so that a server's workers and a reloader's child belong to it and pytest does not.
    """
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError, PermissionError):  # an empty group, or on macOS one of zombies
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def end_politely_on_term() -> None:
    """TERM ends pytest as Ctrl-C does: what tests and fixtures have started is stopped by them first."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
