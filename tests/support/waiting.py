"""Waiting for something to become true, never for a time to pass.

The limit only says when a test gives up: on a slow and loaded machine a thread may start late and a process later.
"""

import time
from collections.abc import Callable

#: More than ten times what anything waited for takes on an idle machine.
LIMIT = 60.0


def until(condition: Callable[[], object], *, seconds: float = LIMIT, every: float = 0.02) -> bool:
    """Whether ``condition`` came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return bool(condition())
        time.sleep(every)
    return True
