"""Steps that may hang, in threads that nobody has to wait for: a worker that stops must not hang with its database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from outbox_admin.delivery.signals import Call


def within(seconds: float, steps: Iterable[Callable[[], object]]) -> bool:
    """Runs the steps beside each other and waits that long at most; whether all of them ended.

    What a step raises ends its thread alone.
    """
    threads = [threading.Thread(target=step, name="outbox-aside", daemon=True) for step in steps]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def ended_before(call: Call, step: Callable[[], object]) -> bool:
    """Runs the step beside the caller; False when a signal came first. What the step raises is raised here."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            raised.append(error)

    thread = threading.Thread(target=run, name="outbox-aside", daemon=True)
    thread.start()
    while thread.is_alive() and not call.came:
        thread.join(0.05)
    if raised:
        raise raised[0]
    return not call.came
