"""A start that waits for a fork, or for its absence. Tried in processes of their own."""

from __future__ import annotations

import subprocess
import sys

from tests.support.waiting import LIMIT

PRELUDE = """
import os, sys, threading
from outbox_admin.delivery.forking import AfterFork

def start():
    os.write(1, f"{name} ".encode())

def wait():
    for timer in threading.enumerate():
        if timer.name == "outbox-start":
            timer.join(60)

name = "parent"
after = AfterFork(start)
after.arm()
"""
FORK = """
for number in (1, 2):
    child = os.fork()
    if child == 0:
        name = f"child{number}"
        wait()
        os._exit(0)
    children = [*globals().get("children", []), child]
"""
REAP = """
for child in children:
    os.waitpid(child, 0)
wait()
"""


def run(text: str) -> list[str]:
    """The names of the processes that started, sorted. `wait()` in the text: until this process has decided."""
    command = [sys.executable, "-W", "ignore", "-c", PRELUDE + text]
    done = subprocess.run(command, capture_output=True, timeout=2 * LIMIT, check=True)
    return sorted(done.stdout.decode().split())


def test_without_a_fork_it_starts_in_this_process_once() -> None:
    assert run("wait()") == ["parent"]


def test_a_process_that_forks_starts_nothing_and_each_child_starts_once() -> None:
    assert run(FORK + REAP) == ["child1", "child2"]


def test_a_child_that_is_forked_later_starts_too() -> None:
    later = "wait()\n" + FORK.replace("(1, 2)", "(3,)")
    assert run(FORK + later + REAP) == ["child1", "child2", "child3"]


def test_children_of_a_process_that_has_started_do_not_start_again() -> None:
    assert run("wait()\n" + FORK + REAP) == ["parent"]
