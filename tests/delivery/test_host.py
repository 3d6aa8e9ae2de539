"""The worker as a WSGI application: what it answers, and where gunicorn's processes start one."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin import ConfigurationError
from outbox_admin.db.schema import outbox_worker
from outbox_admin.delivery.host import Host
from outbox_admin.delivery.worker import STUCK_AFTER, Worker
from outbox_admin.demo.relay import Catcher
from tests.delivery.processes import TOKEN, environ
from tests.delivery.room import Room, route_to
from tests.support.children import child
from tests.support.ports import HOST, free_port, wait_for_port
from tests.support.relay import Relay, silence
from tests.support.waiting import until

CHECKOUT = Path(__file__).parents[2]


def host_of(
    room: Room, make: Callable[[], Worker], *, engine: sa.Engine | None = None, token: str | None = None
) -> Host:
    return Host(make, engine=engine or room.engine, source=lambda db: room.clock.now(), token=token)


def get(host: Host, path: str, **environ: str) -> tuple[str, dict[str, str], bytes]:
    answer: list[Any] = []

    def start(status: str, headers: list[tuple[str, str]], *rest: object) -> Callable[[bytes], object]:
        answer.extend((status, dict(headers)))
        return lambda octets: None

    body = b"".join(host({"PATH_INFO": path, "REQUEST_METHOD": "GET", **environ}, start))
    return answer[0], answer[1], body


def status(host: Host, path: str) -> tuple[int, str]:
    line, _, body = get(host, path)
    return int(line.split()[0]), json.loads(body)["status"]


@contextmanager
def hosted(room: Room, *routes: Any, token: str | None = TOKEN) -> Iterator[tuple[Host, Worker]]:
    worker = room.worker(*routes, kind="gunicorn")
    host = host_of(room, lambda: worker, token=token)
    host.start()
    try:
        yield host, worker
    finally:
        worker.stop(0)


def test_a_host_is_ready_when_its_worker_has_its_keys(room: Room) -> None:
    waiting = host_of(room, lambda: pytest.fail("not started here"))
    assert status(waiting, "/healthz") == (200, "starting")
    assert status(waiting, "/readyz") == (503, "starting")
    with hosted(room) as (host, worker):
        assert status(host, "/healthz") == (200, "ok")
        assert status(host, "/readyz") == (200, "ready")
        assert status(host, "/else")[0] == 404
        worker.stop(0)
        assert status(host, "/healthz") == (503, "dead")


def test_a_stuck_worker_is_not_healthy(room: Room) -> None:
    room.enqueue()
    with (
        Relay({"DOT": silence()}) as relay,
        hosted(room, route_to(relay.port, final_timeout=600, handover_limit=600)) as (host, _),
    ):
        begun = threading.Event()
        while not (relay.transactions and relay.transactions[-1].content):
            begun.wait(0.01)
        room.clock.advance(seconds=STUCK_AFTER + 1)
        assert status(host, "/healthz") == (503, "stuck")


def test_a_refused_start_is_told_and_the_host_stays(room: Room) -> None:
    def refuse() -> Worker:
        raise ConfigurationError("OUTBOX_KEY_RING: no such file")

    host = host_of(room, refuse)
    host.start()
    assert status(host, "/healthz") == (503, "refused")
    assert status(host, "/readyz")[0] == 503


def test_a_start_that_breaks_off_is_told_without_its_text(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks() -> Worker:
        raise ValueError("postgresql://outbox:hunter2@db.example")

    host = host_of(room, breaks)
    host.start()
    assert status(host, "/healthz") == (503, "refused")
    assert "no worker is started: ValueError" in caplog.text
    assert "hunter2" not in caplog.text


def test_figures_that_cannot_be_read_are_unavailable(room: Room, tmp_path: Path) -> None:
    empty = sa.create_engine(f"sqlite:///{tmp_path}/empty.db")
    with hosted(room) as (_, worker):
        host = host_of(room, lambda: worker, engine=empty, token=TOKEN)
        host._worker = worker
        line, _, _ = get(host, "/metrics", HTTP_AUTHORIZATION=f"Bearer {TOKEN}")
        assert line.startswith("503")
    empty.dispose()


def test_a_database_without_our_tables_is_not_ready(room: Room, tmp_path: Path) -> None:
    empty = sa.create_engine(f"sqlite:///{tmp_path}/empty.db")
    with hosted(room) as (_, worker):
        host = host_of(room, lambda: worker, engine=empty)
        host._worker = worker
        assert status(host, "/readyz") == (503, "unavailable")
    empty.dispose()


def test_figures_need_the_token_and_a_head_has_no_body(room: Room) -> None:
    with hosted(room) as (host, _):
        assert get(host, "/metrics")[0].startswith("401")
        line, headers, body = get(host, "/metrics", HTTP_AUTHORIZATION=f"Bearer {TOKEN}")
        assert (line, headers["Cache-Control"]) == ("200 OK", "no-store")
        assert b"outbox_oldest_due_seconds" in body
        assert get(host, "/healthz", REQUEST_METHOD="HEAD")[2] == b""
    with hosted(room, token=None) as (host, _):
        assert get(host, "/metrics", HTTP_AUTHORIZATION=f"Bearer {TOKEN}")[0].startswith("404")


def test_the_queues_figures_are_there_before_the_worker_is_and_where_it_is_refused(room: Room) -> None:
    room.enqueue()
    host = host_of(room, lambda: pytest.fail("not started here"), token=TOKEN)
    line, _, body = get(host, "/metrics", HTTP_AUTHORIZATION=f"Bearer {TOKEN}")
    assert line == "200 OK"
    assert b'outbox_messages{state="pending"} 1.0' in body


@contextmanager
def gunicorn(
    environ: dict[str, str], log: Path, *options: str
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "--bind", f"{HOST}:{port}", *options]
    with (
        log.open("wb") as output,
        child(command, cwd=CHECKOUT, env=environ, stdout=output, stderr=output) as server,
    ):
        wait_for_port(port)
        yield server, port


def answer(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=60) as page:
            return int(page.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def workers(room: Room) -> list[Any]:
    with room.engine.begin() as db:
        return list(db.execute(sa.select(outbox_worker)))


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--preload",)], ids=["loaded in each worker", "preloaded"])
@pytest.mark.parametrize("number", [1, 2])
def test_oc_58_each_gunicorn_worker_has_one_worker_and_the_master_none(
    now_room: Room, relay: Catcher, tmp_path: Path, number: int, options: tuple[str, ...]
) -> None:
    for each in range(40):
        now_room.enqueue(f"{each}@example.com")
    log = tmp_path / "gunicorn.log"
    app = ("--workers", str(number), *options, "outbox_admin.delivery.host:app")
    with gunicorn(environ(now_room, tmp_path, relay), log, *app) as (server, port):
        assert until(lambda: now_room.states() == {"sent": 40}), log.read_text()
        assert until(lambda: len(workers(now_room)) == number), log.read_text()
        found = workers(now_room)
        assert {row.kind for row in found} == {"gunicorn"}
        assert server.pid not in {row.pid for row in found}
        request = urllib.request.Request(f"http://{HOST}:{port}/metrics")
        request.add_header("Authorization", f"Bearer {TOKEN}")
        with urllib.request.urlopen(request, timeout=60) as page:
            assert b'outbox_messages{state="sent"} 40.0' in page.read()
        assert until(lambda: answer(port, "/readyz") == 200), log.read_text()
        server.terminate()
        assert server.wait(timeout=120) == 0
    assert {row.state for row in workers(now_room)} == {"stopped"}
    assert len({caught.recipients for caught in relay.messages}) == len(relay.messages) == 40
