"""Real processes: many at once, killed, stopped, and behind every door that starts a worker."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from outbox_admin import Entry, Message
from outbox_admin.demo.relay import Catcher, Caught, Verdict
from tests.contract.bench import JANE, Bench, outbox_admin, until
from tests.contract.promises import proves
from tests.support.ports import free_port
from tests.support.relay import Relay, silence

CHECKOUT = Path(__file__).resolve().parents[2]


@proves("claim")
@pytest.mark.slow
def test_eight_processes_deliver_two_thousand_rows_once_each(bench: Bench, relay: Catcher) -> None:
    names = [f"customer-{number}@customer.example" for number in range(2000)]
    with bench.engine.begin() as db:
        bench.outbox.enqueue_many(
            db, [Entry(Message(name, "Hello", "Hello"), f"hello:{name}") for name in names]
        )
    with ExitStack() as stack:
        drains = [
            stack.enter_context(bench.process(*outbox_admin("worker", "--drain", "--lanes", "1")))
            for _ in range(8)
        ]
        assert [drain.wait(timeout=240) for drain in drains] == [0] * 8, bench.logs()
    caught = Counter(name for message in relay.messages for name in message.recipients)
    assert caught == Counter(names)
    assert Counter((row.state, row.attempts) for row in bench.rows()) == {("sent", 1): 2000}


class Trap(list[Caught]):
    """Kills a process at the moment in which the relay has taken a message and not yet said so."""

    pid: int | None = None

    def append(self, message: Caught) -> None:
        super().append(message)
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            self.pid = None


@proves("6a")
def test_a_worker_killed_before_its_record_sends_a_second_equal_copy(bench: Bench, relay: Catcher) -> None:
    trap = relay.messages = Trap()
    with bench.process(*outbox_admin("worker", "--lanes", "1")) as worker:
        trap.pid = worker.pid
        row_id = bench.add()
        assert worker.wait(timeout=30) == -signal.SIGKILL
    assert (bench.row(row_id).state, len(relay.messages)) == ("sending", 1)
    bench.clock.advance(minutes=6)
    bench.drain()
    row = bench.row(row_id)
    assert (row.state, row.attempts, row.maybe_delivered) == ("sent", 2, True)
    first, second = relay.messages
    assert first.content == second.content
    assert row.message_id.encode() in first.content


@proves("6b")
def test_a_kill_leaves_one_message_for_each_connection_in_doubt(bench: Bench, relay: Catcher) -> None:
    trap = relay.messages = Trap()
    for _ in range(30):
        bench.add()
    with bench.process(*outbox_admin("worker", "--lanes", "1"), window="1") as worker:
        trap.pid = worker.pid
        worker.wait(timeout=30)
    doubtful = [row for row in bench.rows() if row.state == "sending" and row.handover_at is not None]
    assert len(doubtful) == 1


@proves("6c")
def test_on_unknown_hold_is_never_sent_a_second_time_by_itself(bench: Bench) -> None:
    with Relay({"DOT": silence()}, {}) as relay:
        bench.relay_port = relay.port
        row_id = bench.add(on_unknown="hold")
        bench.drain(smtp_final_timeout="0.3s")
        bench.clock.advance(days=1)
        bench.drain()
        row = bench.row(row_id)
        assert (row.state, row.maybe_delivered, len(relay.transactions)) == ("uncertain", True, 1)
        assert row.payload is not None


@proves("lease")
def test_kill_9_in_mid_send_is_recovered(bench: Bench, relay: Catcher) -> None:
    row_id = bench.add()
    with (
        Relay({"DATA": silence()}) as stuck,
        bench.process(
            *outbox_admin("worker", "--lanes", "1"), smtp_url=f"smtp://127.0.0.1:{stuck.port}"
        ) as worker,
    ):
        assert until(lambda: "DATA" in stuck.verbs), bench.logs()
        worker.kill()
        worker.wait()
    bench.clock.advance(minutes=6)
    bench.drain()
    assert (bench.row(row_id).state, bench.row(row_id).attempts, len(relay.messages)) == ("sent", 2, 1)
    assert [one.outcome for one in bench.tries(row_id)] == ["worker_lost"]


def test_term_finishes_what_is_in_hand_and_releases_the_rest_at_once(bench: Bench, relay: Catcher) -> None:
    pids: list[int] = []

    def decide(recipient: str) -> Verdict:
        if len(relay.messages) == 40 and pids:
            os.kill(pids.pop(), signal.SIGTERM)
        return Verdict.ACCEPT

    relay.decide = decide
    for _ in range(120):
        bench.add()
    with bench.process(*outbox_admin("worker", "--lanes", "1")) as worker:
        pids.append(worker.pid)
        assert worker.wait(timeout=30) == 0, bench.logs()
    counts = Counter((row.state, row.attempts) for row in bench.rows())
    assert set(counts) == {("sent", 1), ("pending", 0)}
    assert counts["sent", 1] == len(relay.messages) < 120
    bench.drain()
    assert Counter(bench.states()) == {"sent": 120}


def gunicorn(*options: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "gunicorn", "--chdir", str(CHECKOUT), *options)


DOORS: dict[str, tuple[str, ...]] = {
    "outbox-admin web": outbox_admin("web"),
    "wsgi": gunicorn("wsgi:app"),
    "wsgi, four processes": gunicorn("--workers", "4", "wsgi:app"),
    "wsgi, four processes, preloaded": gunicorn("--workers", "4", "--preload", "wsgi:app"),
    "flask run": (sys.executable, "-m", "flask", "--app", str(CHECKOUT / "wsgi.py"), "run", "--no-reload"),
    "flask run, reloaded": (
        sys.executable,
        "-m",
        "flask",
        "--app",
        str(CHECKOUT / "wsgi.py"),
        "run",
        "--reload",
    ),
    "host": gunicorn("outbox_admin.delivery.host:app"),
    "host, two processes, preloaded": gunicorn(
        "--workers", "2", "--preload", "outbox_admin.delivery.host:app"
    ),
}


@proves("9c")
@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_each_embedded_door_delivers_within_seconds(bench: Bench, relay: Catcher, door: str) -> None:
    port = free_port()
    command = DOORS[door]
    if "gunicorn" in command:
        command += ("--bind", f"127.0.0.1:{port}")
    elif "flask" in command:
        command += ("--port", str(port))
    with bench.process(*command, env="development", bind=f"127.0.0.1:{port}", cycle="") as server:
        first = bench.add()
        assert until(lambda: bench.row(first).state == "sent", seconds=30), bench.logs()
        second = bench.add(not_before=bench.clock.now() - timedelta(seconds=10))
        assert until(lambda: bench.row(second).state == "sent", seconds=8), bench.logs()
        server.terminate()
        server.wait(timeout=40)
    assert [name for message in relay.messages for name in message.recipients] == [JANE, JANE]
    assert bench.settings().cycle == 2.0
