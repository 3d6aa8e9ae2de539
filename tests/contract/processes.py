"""Real processes: many at once, killed, stopped, and behind every door that starts a worker."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from outbox_admin import Entry, Message
from outbox_admin.demo.relay import Catcher, Caught, Verdict
from tests.contract.bench import JANE, Bench, outbox_admin
from tests.contract.promises import proves
from tests.support.clock import FakeClock
from tests.support.ports import free_port
from tests.support.relay import Relay, silence
from tests.support.waiting import until

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def live(engine: sa.Engine, tmp_path: Path, relay: Catcher) -> Bench:
    """Its clock starts now, so that other processes find due what it adds."""
    return Bench(engine, tmp_path, relay=relay, clock=FakeClock(datetime.now(UTC)))


@proves("claim")
@pytest.mark.slow
def test_eight_processes_deliver_two_thousand_rows_once_each(live: Bench, relay: Catcher) -> None:
    names = [f"customer-{number}@customer.example" for number in range(2000)]
    with live.engine.begin() as db:
        live.outbox.enqueue_many(
            db, [Entry(Message(name, "Hello", "Hello"), f"hello:{name}") for name in names]
        )
    with ExitStack() as stack:
        drains = [
            stack.enter_context(live.process(*outbox_admin("worker", "--drain", "--lanes", "1")))
            for _ in range(8)
        ]
        assert [drain.wait(timeout=240) for drain in drains] == [0] * 8, live.logs()
    caught = Counter(name for message in relay.messages for name in message.recipients)
    assert caught == Counter(names)
    assert Counter((row.state, row.attempts) for row in live.rows()) == {("sent", 1): 2000}


class Trap(list[Caught]):
    """Kills a process at the moment in which the relay has taken a message and not yet said so."""

    pid: int | None = None

    def append(self, message: Caught) -> None:
        super().append(message)
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            self.pid = None


@proves("6a")
def test_a_worker_killed_before_its_record_sends_a_second_equal_copy(live: Bench, relay: Catcher) -> None:
    trap = relay.messages = Trap()
    with live.process(*outbox_admin("worker", "--lanes", "1")) as worker:
        trap.pid = worker.pid
        row_id = live.add()
        assert worker.wait(timeout=120) == -signal.SIGKILL
    assert (live.row(row_id).state, len(relay.messages)) == ("sending", 1)
    live.clock.advance(minutes=6)
    live.drain()
    row = live.row(row_id)
    assert (row.state, row.attempts, row.maybe_delivered) == ("sent", 2, True)
    first, second = relay.messages
    assert first.content == second.content
    assert row.message_id.encode() in first.content


@proves("6b")
def test_a_kill_leaves_one_message_for_each_connection_in_doubt(live: Bench, relay: Catcher) -> None:
    trap = relay.messages = Trap()
    for _ in range(30):
        live.add()
    with live.process(*outbox_admin("worker", "--lanes", "1"), window="1") as worker:
        trap.pid = worker.pid
        worker.wait(timeout=120)
    doubtful = [row for row in live.rows() if row.state == "sending" and row.handover_at is not None]
    assert len(doubtful) == 1


@proves("6c")
def test_on_unknown_hold_is_never_sent_a_second_time_by_itself(bench: Bench) -> None:
    with Relay({"DOT": silence()}, {}) as relay:
        bench.relay_port = relay.port
        row_id = bench.add(on_unknown="hold")
        bench.drain(smtp_final_timeout="2s")
        bench.clock.advance(days=1)
        bench.drain()
        row = bench.row(row_id)
        assert (row.state, row.maybe_delivered, len(relay.transactions)) == ("uncertain", True, 1)
        assert row.payload is not None


@proves("lease")
def test_kill_9_in_mid_send_is_recovered(live: Bench, relay: Catcher) -> None:
    row_id = live.add()
    with (
        Relay({"DATA": silence()}) as stuck,
        live.process(
            *outbox_admin("worker", "--lanes", "1"), smtp_url=f"smtp://127.0.0.1:{stuck.port}"
        ) as worker,
    ):
        assert until(lambda: "DATA" in stuck.verbs), live.logs()
        worker.kill()
        worker.wait()
    live.clock.advance(minutes=6)
    live.drain()
    assert (live.row(row_id).state, live.row(row_id).attempts, len(relay.messages)) == ("sent", 2, 1)
    assert [one.outcome for one in live.tries(row_id)] == ["worker_lost"]


def test_term_finishes_what_is_in_hand_and_releases_the_rest_at_once(live: Bench, relay: Catcher) -> None:
    pids: list[int] = []

    def decide(recipient: str) -> Verdict:
        if len(relay.messages) == 40 and pids:
            waiting = live.states().count("pending")
            os.kill(pids.pop(), signal.SIGTERM)
            until(
                lambda: live.states().count("pending") > waiting
            )  # the rest is back while this one is in hand
        return Verdict.ACCEPT

    relay.decide = decide
    for _ in range(120):
        live.add()
    with live.process(*outbox_admin("worker", "--lanes", "1")) as worker:
        pids.append(worker.pid)
        assert worker.wait(timeout=120) == 0, live.logs()
    counts = Counter((row.state, row.attempts) for row in live.rows())
    assert set(counts) == {("sent", 1), ("pending", 0)}
    assert counts["sent", 1] == len(relay.messages) < 120
    live.clock.advance(minutes=1)
    live.drain()
    assert Counter(live.states()) == {"sent": 120}


def gunicorn(*options: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "gunicorn", "--chdir", str(CHECKOUT), *options)


DOORS: dict[str, tuple[str, ...]] = {
    "outbox-admin web": outbox_admin("web"),
    "wsgi": gunicorn("wsgi:app"),
    "wsgi, preloaded": gunicorn("--preload", "wsgi:app"),
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
def test_each_embedded_door_delivers_within_seconds(live: Bench, relay: Catcher, door: str) -> None:
    port = free_port()
    command = DOORS[door]
    if "gunicorn" in command:
        command += ("--bind", f"127.0.0.1:{port}")
    elif "flask" in command:
        command += ("--port", str(port))
    with live.process(*command, env="development", bind=f"127.0.0.1:{port}", cycle="") as server:
        first = live.add()
        assert until(lambda: live.row(first).state == "sent"), live.logs()
        second = live.add(not_before=live.clock.now() - timedelta(seconds=10))
        assert until(lambda: live.row(second).state == "sent"), live.logs()
        server.terminate()
        server.wait(timeout=120)
    assert [name for message in relay.messages for name in message.recipients] == [JANE, JANE]
    assert live.settings().cycle == 2.0
