"""The demo as a process: every message ends as its name says, and the mails are at the relay."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from outbox_admin.demo.cast import CAST
from outbox_admin.demo.traffic import traffic
from tests.cli.conftest import Shell
from tests.support.children import child
from tests.support.ports import free_port
from tests.support.waiting import until

DEMO = [sys.executable, "-W", "error", "-c", "from outbox_admin.cli import main; main()", "demo"]
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


@pytest.mark.slow
def test_the_demo_ends_by_itself_and_everything_ended_as_named(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    port = free_port()
    done = subprocess.run(
        [*DEMO, "--for", "10", "--port", str(port), "--json"],
        capture_output=True,
        text=True,
        env=environ,
        cwd="/",
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["url"] == f"http://127.0.0.1:{port}"
    assert {one["name"]: one["state"] for one in verdict["named"]} == {part.name: part.state for part in CAST}
    assert verdict["states"]["sent"] == verdict["caught"] > len(CAST)
    assert verdict["attempts"]["failed"] == 3
    assert "Sign in" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_printed_switch_repairs_the_relay_and_retry_delivers(bare_shell: Shell) -> None:
    with child([*DEMO, "--for", "12", "--json"], **PIPES) as demo:
        assert demo.stderr is not None
        switch = next(Path(line.split()[1]) for line in demo.stderr if line.split()[0] == "touch")
        bare_shell.environ["OUTBOX_DATABASE_URL"] = f"sqlite:///{switch.parent / 'outbox.db'}"
        failed: list[dict[str, str]] = []
        assert until(lambda: bool(failed.extend(dead_letters(bare_shell)) or failed))
        switch.touch()
        bare_shell("retry", failed[0]["id"])
        verdict = json.loads(demo.communicate(timeout=120)[0])
    ended = {one["name"]: one["state"] for one in verdict["named"]}
    assert (ended["always-deferred"], verdict["wrong"], verdict["ok"]) == ("sent", [], False)
    assert demo.returncode == 1


@pytest.mark.slow
def test_term_ends_the_demo_and_its_folder_with_it(tmp_path: Path) -> None:
    with child(traffic_without_end(), env=within(tmp_path), **PIPES) as demo:
        assert demo.stderr is not None
        assert any(line.startswith("End") for line in demo.stderr)
        demo.terminate()
        told, complained = demo.communicate(timeout=120)
    assert (demo.returncode, complained) == (0, "")
    assert "The relay has" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_may_come_at_any_moment_and_again_and_again(tmp_path: Path, number: signal.Signals) -> None:
    """From the first moment at which there is something to take down, every few milliseconds until it is gone."""
    with child(traffic_without_end(), env=within(tmp_path), **PIPES) as demo:
        assert until(lambda: any(tmp_path.iterdir()), every=0.001)
        assert until(lambda: has_ended_despite(demo, number) or not any(tmp_path.iterdir()), every=0.005)
        told, complained = demo.communicate(timeout=120)
    assert (demo.returncode, "Traceback" in complained) == (0, False), complained
    assert "The relay has" in told
    assert list(tmp_path.iterdir()) == []


def traffic_without_end() -> list[str]:
    return [*DEMO, "--port", str(free_port())]


def within(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "TMPDIR": str(folder)}


def has_ended_despite(process: subprocess.Popen[str], number: signal.Signals) -> bool:
    process.send_signal(number)
    return process.poll() is not None


def dead_letters(shell: Shell) -> list[dict[str, str]]:
    found: list[dict[str, str]] = shell.json("list", "--state", "failed")["messages"]
    return found


def test_the_demo_names_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [*DEMO, "--for", "5", "--port", str(taken.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "in use" in done.stderr


def test_the_traffic_is_of_four_kinds_and_each_message_has_its_own_key() -> None:
    letters = [letter for letter, _ in zip(traffic(), range(40), strict=False)]
    assert {letter.template_key for letter in letters} == {
        "account.verify",
        "workspace.invite",
        "invoice.notice",
        "password.reset",
    }
    assert len({letter.key for letter in letters}) == 40
