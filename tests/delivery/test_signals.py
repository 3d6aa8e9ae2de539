"""The first signal asks, whatever the main thread is doing at that moment and whichever thread the system tells."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]

#: TERM comes while the main thread, on its way into the wait, holds the lock of the event that it waits for.
STRUCK_INSIDE_THE_LOCK = """
import os, signal, sys, threading
from outbox_admin.delivery.signals import finishing

struck = []

def inside(frame, event, argument):
    if not struck:
        struck.append(True)
        os.kill(os.getpid(), signal.SIGTERM)
    return inside

def trace(frame, event, argument):
    if frame.f_code is threading.Condition.wait.__code__:
        return inside

with finishing() as call:
    sys.settrace(trace)
    call.wait()
sys.settrace(None)
print("ended", struck)
"""
#: The system hands TERM to another thread, as it may when the main thread has just been continued.
TOLD_TO_ANOTHER_THREAD = """
import signal, threading
from outbox_admin.delivery.signals import finishing

struck, waiting = [], threading.Event()
other = threading.Thread(target=lambda: waiting.wait(0.5) or strike())

def strike():
    struck.append(True)
    signal.pthread_kill(other.ident, signal.SIGTERM)
    waiting.wait(60)

with finishing() as call:
    other.start()
    call.wait()
waiting.set()
print("ended", struck)
"""


@pytest.mark.parametrize(
    "text", [STRUCK_INSIDE_THE_LOCK, TOLD_TO_ANOTHER_THREAD], ids=["in a lock", "another"]
)
def test_a_signal_is_obeyed_wherever_it_meets_the_process(text: str) -> None:
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ended [True]\n"), done.stderr
