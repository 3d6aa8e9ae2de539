"""Workers as processes: a message that kills them, signals, and several of them at one queue."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from outbox_admin.demo.relay import Catcher, Verdict
from tests.delivery.processes import process
from tests.delivery.room import Room
from tests.support.relay import Relay, silence
from tests.support.waiting import until

#: A worker whose process dies whenever it prepares mail to `killer@…`.
FRAGILE = """
import os
from outbox_admin import assemble
from outbox_admin.config import Settings

worker = assemble.worker(Settings.from_env(), lanes=1)
for lane in worker.lanes:
    desk = lane.dispatcher._desk
    class Fragile:
        def prepare(self, claim, payload):
            if claim.recipient.startswith("killer@"):
                os._exit(137)
            return desk.prepare(claim, payload)
    lane.dispatcher._desk = Fragile()
worker.drain()
"""
WORKER = ("-c", "from outbox_admin.cli import main; main()", "worker", "--lanes", "1")


def lose_all(room: Room) -> None:
    """As if five minutes had passed since the process died."""
    past = datetime.now(UTC) - timedelta(seconds=1)
    for row in room.rows():
        if row.state == "sending":
            room.change(row.id, lease_until=past)


@pytest.mark.slow
def test_oc_50_a_message_that_kills_its_worker_takes_nobody_along(
    now_room: Room, relay: Catcher, tmp_path: Path
) -> None:
    killer = now_room.enqueue("killer@example.com", priority=0)
    for number in range(50):
        now_room.enqueue(f"{number}@example.com")
    codes = []
    while not codes or (codes[-1] == 137 and len(codes) < 20):
        with process(now_room, tmp_path / f"{len(codes)}", relay, "-c", FRAGILE) as running:
            codes.append(running.wait(timeout=120))
        lose_all(now_room)
        if len(codes) == 2:
            assert now_room.states()["sent"] == 50
    assert codes == [137] * 8 + [0]
    row = now_room.row(killer)
    assert (row.state, row.attempts, row.cause_kind, row.payload is not None) == (
        "failed",
        8,
        "worker_lost",
        True,
    )
    assert [attempt.outcome for attempt in now_room.attempts(killer)] == ["worker_lost"] * 8
    assert len(relay.messages) == 50


@pytest.mark.slow
def test_a_second_term_ends_the_process_at_once(now_room: Room, tmp_path: Path) -> None:
    row_id = now_room.enqueue()
    with (
        Relay({"DATA": silence()}) as stuck,
        process(now_room, tmp_path / "worker", stuck, *WORKER) as running,
    ):
        assert until(lambda: "DATA" in stuck.verbs)
        running.terminate()
        assert until(lambda: now_room.row(row_id).state == "sending")
        assert until(lambda: b"stopping" in (tmp_path / "worker" / "log").read_bytes())
        running.terminate()
        assert running.wait(timeout=120) == -signal.SIGTERM
    assert now_room.row(row_id).state == "sending"


@pytest.mark.slow
def test_oc_43_killed_between_two_rows_doubles_one_at_most(
    now_room: Room, relay: Catcher, tmp_path: Path
) -> None:
    pids: list[int] = []

    def decide(recipient: str) -> Verdict:
        if len(relay.messages) == 10 and pids:
            os.kill(pids.pop(), signal.SIGKILL)
        return Verdict.ACCEPT

    relay.decide = decide
    with process(now_room, tmp_path / "first", relay, *WORKER) as running:
        pids.append(running.pid)
        for number in range(20):
            now_room.enqueue(f"{number}@example.com")
        assert running.wait(timeout=120) == -signal.SIGKILL
    lose_all(now_room)
    with process(now_room, tmp_path / "second", relay, *WORKER, "--drain") as running:
        assert running.wait(timeout=120) == 0
    assert now_room.states() == {"sent": 20}
    assert 20 <= len(relay.messages) <= 21


@pytest.mark.slow
def test_oc_45_five_workers_share_one_queue(now_room: Room, relay: Catcher, tmp_path: Path) -> None:
    for number in range(300):
        now_room.enqueue(f"{number}@example.com")
    folders = [tmp_path / str(number) for number in range(5)]
    with ExitStack() as stack:
        drains = [
            stack.enter_context(process(now_room, folder, relay, *WORKER, "--drain")) for folder in folders
        ]
        assert [drain.wait(timeout=120) for drain in drains] == [0] * 5
    assert now_room.states() == {"sent": 300}
    assert len({caught.recipients for caught in relay.messages}) == len(relay.messages) == 300
    logs = b"".join((folder / "log").read_bytes() for folder in folders)
    assert b"ERROR" not in logs
    assert b"@example.com" not in logs
