"""The first signal asks, whatever the main thread is doing at that moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

#: TERM comes while the main thread, on its way into the wait, holds the lock of the event that TERM sets.
STRUCK_INSIDE_THE_LOCK = """
import os, signal, sys, threading
from outbox_admin.delivery.signals import finishing

def inside(frame, event, argument):
    if not called.struck:
        called.struck = True
        os.kill(os.getpid(), signal.SIGTERM)
    return inside

def trace(frame, event, argument):
    if frame.f_code is threading.Condition.wait.__code__:
        return inside

called = threading.Event()
called.struck = False
with finishing(called.set):
    sys.settrace(trace)
    called.wait()
sys.settrace(None)
print("ended", called.struck)
"""


def test_a_signal_that_meets_the_main_thread_inside_a_lock_is_still_obeyed() -> None:
    command = [sys.executable, "-c", STRUCK_INSIDE_THE_LOCK]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ended True\n"), done.stderr
