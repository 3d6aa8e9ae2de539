"""``web`` and ``worker`` as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.cli.conftest import Shell
from tests.support.children import child
from tests.support.ports import free_port, wait_for_port
from tests.support.waiting import until

RUN = "from outbox_admin.cli import main; main()"
WITHOUT_GUNICORN = f"import sys; sys.modules['gunicorn'] = None; {RUN}"
PRODUCTION = {
    "OUTBOX_ENV": "production",
    "OUTBOX_CONSOLE_SECRET": "f3JmZ0wq9vB1yqk1mS7w4u8h2nC5xT6a",
    "OUTBOX_PUBLIC_URL": "https://outbox.shop.example",
}


@contextmanager
def running(
    shell: Shell, *arguments: str, code: str = RUN, **changes: str
) -> Iterator[subprocess.Popen[str]]:
    environ = {"PATH": os.environ["PATH"]} | shell.environ | changes
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with child([sys.executable, "-c", code, *arguments], env=environ, **pipes) as process:
        yield process


def answer(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60) as response:
        status: int = response.status
        return status


def test_production_without_gunicorn_refuses_with_the_pip_command(shell: Shell) -> None:
    with running(shell, "web", code=WITHOUT_GUNICORN, **PRODUCTION) as process:
        _, complaint = process.communicate(timeout=120)
    assert process.returncode == 78
    assert 'pip install "outbox-admin[server]"' in complaint
    assert "Traceback" not in complaint


@pytest.mark.parametrize("code", [RUN, WITHOUT_GUNICORN])
def test_the_console_is_served_with_and_without_gunicorn(bare_shell: Shell, code: str) -> None:
    bare_shell("db", "upgrade")
    bare_shell("keys", "generate")
    port = free_port()
    with running(
        bare_shell, "web", code=code, OUTBOX_ENV="development", OUTBOX_BIND=f"127.0.0.1:{port}"
    ) as process:
        wait_for_port(port)
        assert answer(port) == 200
        process.terminate()
        assert process.wait(timeout=120) == 0
    assert bare_shell.json("status", code=None)["workers"]["active"] == 0


def test_web_and_worker_say_what_production_lacks(shell: Shell) -> None:
    shell.environ |= {"OUTBOX_ENV": "production"}
    assert "OUTBOX_CONSOLE_SECRET" in shell("web", code=78).stderr
    assert "OUTBOX_SIMULATE=1" in shell("worker", code=78).stderr


def test_a_worker_reports_and_ends_with_0_on_term(shell: Shell, count: Callable[[str], int]) -> None:
    with running(shell, "worker", "--lanes", "1") as process:
        assert until(lambda: count("outbox_worker") == 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0


def test_a_drain_that_reaches_no_relay_says_so_and_exits_1(shell: Shell) -> None:
    shell.environ |= {"OUTBOX_SMTP_URL": f"smtp://127.0.0.1:{free_port()}"}
    shell(
        "enqueue", "--to", "jane@customer.example", "--subject", "s", "--text", "-", "--key", "k", given="t"
    )
    told = shell("worker", "--drain", "--lanes", "1", code=1).stdout
    assert "0 messages sent, 0 rejected, 0 deferred, 1 fault of the channel." in told
    assert "`outbox-admin status` names it" in told


def test_a_ring_that_others_can_read_stops_the_worker(shell: Shell) -> None:
    os.chmod(shell.environ["OUTBOX_KEY_RING"], 0o644)
    with running(shell, "worker", "--drain") as process:
        _, complaint = process.communicate(timeout=120)
    assert (process.returncode, "run: chmod" in complaint, "Traceback" in complaint) == (78, True, False)
