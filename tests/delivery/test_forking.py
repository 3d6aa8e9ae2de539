"""A start that waits for a fork, or for its absence. Tried in processes of their own."""

from __future__ import annotations

import subprocess
import sys

PRELUDE = """
import os, sys, threading
from outbox_admin.delivery.forking import AfterFork

def start():
    os.write(1, f"{name} ".encode())

name = "parent"
waiting = threading.Event()
after = AfterFork(start, delay=0.2)
after.arm()
"""


def run(text: str) -> list[str]:
    """The names of the processes that started, sorted."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PRELUDE + text], capture_output=True, timeout=20, check=True
    )
    return sorted(done.stdout.decode().split())


FORK = """
for number in (1, 2):
    child = os.fork()
    if child == 0:
        name = f"child{number}"
        waiting.wait(0.6)
        os._exit(0)
    children = [*globals().get("children", []), child]
"""
REAP = """
for child in children:
    os.waitpid(child, 0)
waiting.wait(0.4)
"""


def test_without_a_fork_it_starts_in_this_process_once() -> None:
    assert run("waiting.wait(0.6)") == ["parent"]


def test_a_process_that_forks_starts_nothing_and_each_child_starts_once() -> None:
    assert run(FORK + REAP) == ["child1", "child2"]


def test_a_child_that_is_forked_later_starts_too() -> None:
    later = "waiting.wait(0.4)\n" + FORK.replace("(1, 2)", "(3,)")
    assert run(FORK + later + REAP) == ["child1", "child2", "child3"]


def test_children_of_a_process_that_has_started_do_not_start_again() -> None:
    assert run("waiting.wait(0.4)\n" + FORK + REAP) == ["parent"]
