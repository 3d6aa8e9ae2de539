"""The sign of life: it outlasts a beat that fails, and its last word is the last."""

from __future__ import annotations

import threading

from outbox_admin.delivery.heartbeat import Heartbeat
from tests.support.waiting import LIMIT


def test_a_beat_that_fails_ends_nothing() -> None:
    def fails() -> None:
        raise ZeroDivisionError

    Heartbeat(fails).beat()


def test_the_last_word_follows_a_beat_that_is_under_way() -> None:
    begun, words = threading.Event(), []

    def beat() -> None:
        own = threading.current_thread().name == "outbox-heartbeat"
        begun.set()
        if own:
            threading.Event().wait(0.05)  # as a slow database would
        words.append("active" if own else "stopped")

    heartbeat = Heartbeat(beat)
    heartbeat.start()
    assert begun.wait(LIMIT)
    heartbeat.end()
    assert words == ["active", "stopped"]
