"""``outbox-admin worker --processes``: one parent, several workers."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin.cli.processes import Processes
from outbox_admin.db.schema import outbox_worker
from outbox_admin.demo.relay import Catcher
from tests.delivery.conftest import now_room, relay
from tests.delivery.processes import process
from tests.delivery.room import Room
from tests.support.waiting import until

__all__ = ["now_room", "relay"]
PROGRAM = ("-c", "import sys; from outbox_admin.cli import main; sys.exit(main())", "worker")


def workers(room: Room, *states: str) -> dict[int, Any]:
    with room.engine.begin() as db:
        return {row.pid: row for row in db.execute(sa.select(outbox_worker)) if row.state in states}


def fill(room: Room, number: int) -> None:
    for each in range(number):
        room.enqueue(f"{each}@example.com")


def test_what_dies_is_started_anew_and_nobody_outlives_the_parent(
    now_room: Room, relay: Catcher, tmp_path: Path
) -> None:
    with process(now_room, tmp_path / "workers", relay, *PROGRAM, "--processes", "2") as parent:
        assert until(lambda: len(workers(now_room, "active")) == 2)
        first, second = workers(now_room, "active")
        assert parent.pid not in (first, second)
        fill(now_room, 10)
        assert until(lambda: now_room.states() == {"sent": 10})
        os.kill(first, signal.SIGKILL)
        assert until(lambda: len(workers(now_room, "active").keys() - {first}) == 2)
        fill(now_room, 10)
        assert until(lambda: now_room.states() == {"sent": 20})
        parent.kill()
        assert until(lambda: not workers(now_room, "active").keys() - {first})
    log = (tmp_path / "workers" / "log").read_text()
    assert f"worker process {first} ended with signal SIGKILL; another one starts in 1 s" in log
    assert len(relay.messages) == 20


def test_term_ends_them_all_with_0(now_room: Room, relay: Catcher, tmp_path: Path) -> None:
    with process(
        now_room, tmp_path / "workers", relay, *PROGRAM, "--processes", "2", "--lanes", "1"
    ) as parent:
        assert until(lambda: len(workers(now_room, "active")) == 2)
        parent.terminate()
        assert parent.wait(timeout=60) == 0
    assert len(workers(now_room, "stopped")) == 2


def test_a_drain_ends_when_all_have_drained(now_room: Room, relay: Catcher, tmp_path: Path) -> None:
    fill(now_room, 20)
    with process(now_room, tmp_path / "workers", relay, *PROGRAM, "--processes", "2", "--drain") as parent:
        assert parent.wait(timeout=60) == 0
    assert (now_room.states(), len(relay.messages)) == ({"sent": 20}, 20)


@pytest.mark.parametrize("code", [78, 0], ids=["a setting is wrong", "all is well"])
def test_what_repeating_cannot_cure_ends_them_all(code: int) -> None:
    """A setting that only a child finds wrong: its code is the parent's, and no other one is started."""
    ends = [sys.executable, "-c", f"import sys; sys.exit({code})"]
    assert Processes(lambda pipe: ends, 2, grace=5, drain=code == 0).run() == code
