"""Worker processes by the thousand: a process that has imported everything once and forks a worker for each order.

The workers are real processes with a memory, files and sockets of their own; only the second of imports is saved.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.faults.steps import Plan, live

PR_SET_PDEATHSIG = 1
CHECKOUT = Path(__file__).resolve().parents[2]
#: Far longer than anything here takes on a slow machine.
PATIENCE = 240.0


class Child:
    """One worker process, as the nursery tells of it."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid = pid
        self.log = log
        self.code: int | None = None
        self.stopped = False

    @property
    def alive(self) -> bool:
        return self.code is None

    def signal(self, number: signal.Signals) -> None:
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def words(self) -> str:
        return self.log.read_text()


class Nursery:
    """``with Nursery() as nursery: nursery.start(plan, log)``; whatever still lives at the end is killed."""

    def __init__(self) -> None:
        self._told = threading.Condition()
        self._children: dict[int, Child] = {}
        self._begun: list[Child] = []

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.faults.nursery"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=CHECKOUT, start_new_session=True
        )
        self._listener = threading.Thread(target=self._listen, name="nursery", daemon=True)
        self._listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()  # it kills its workers, then ends
        self._process.wait(PATIENCE)
        self._listener.join(PATIENCE)
        self._process.stdout.close()

    def start(self, plan: Plan, log: Path) -> Child:
        log.touch()
        order = json.dumps({"plan": asdict(plan), "log": str(log)}) + "\n"
        assert self._process.stdin
        self._process.stdin.write(order.encode())
        self._process.stdin.flush()
        with self._told:
            if not self._told.wait_for(lambda: self._begun, PATIENCE):
                raise TimeoutError("the nursery starts nothing")
            return self._begun.pop()

    def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
        """Waits for news of the workers until ``condition`` holds."""
        with self._told:
            return self._told.wait_for(condition, seconds)

    def wait(self, child: Child, seconds: float = PATIENCE) -> int:
        """The exit code; minus the signal that killed it."""
        if not self.until(lambda: not child.alive, seconds):
            raise TimeoutError(f"worker {child.pid} did not end:\n{child.words()}")
        assert child.code is not None
        return child.code

    def _listen(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            news = json.loads(line)
            with self._told:
                self._note(**news)
                self._told.notify_all()

    def _note(self, what: str, pid: int, code: int | None = None, log: str = "") -> None:
        if what == "begun":
            self._children[pid] = Child(pid, Path(log))
            self._begun.append(self._children[pid])
        child = self._children[pid]
        child.stopped = what == "stopped"
        if what == "ended":
            child.code = code


class Bed:
    """The nursery's own process: forks on order, tells of ends and stops. One thread, so that it may fork."""

    def __init__(self) -> None:
        self._alive: set[int] = set()
        self._woken, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        gc.freeze()
        unread = b""
        while True:
            ready, _, _ = select.select([0, self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._look()
            if 0 not in ready:
                continue
            octets = os.read(0, 65536)
            if not octets:
                break
            *orders, unread = (unread + octets).split(b"\n")
            for order in orders:
                self._fork(json.loads(order))
        for pid in self._alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _fork(self, order: dict[str, object]) -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(_become(order))
        self._alive.add(pid)
        _say(what="begun", pid=pid, log=order["log"])

    def _look(self) -> None:
        while self._alive:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                _say(what="stopped", pid=pid)
            elif os.WIFCONTINUED(status):
                _say(what="continued", pid=pid)
            else:
                self._alive.discard(pid)
                _say(what="ended", pid=pid, code=os.waitstatus_to_exitcode(status))


def _say(**news: object) -> None:
    os.write(1, json.dumps(news).encode() + b"\n")


def _become(order: dict[str, object]) -> int:
    """In the child: a worker, with nothing left of the nursery's own."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(str(order["log"]), os.O_WRONLY | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, ours in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(number, ours)
    os.closerange(3, 64)
    try:
        return live(Plan.from_json(json.dumps(order["plan"])))
    except BaseException:  # noqa: BLE001 - the last word of a process
        traceback.print_exc()
        return 99


if __name__ == "__main__":
    Bed().run()
