"""What the contenders stand between: a PostgreSQL that keeps its word, and a sink that takes all mail.

The sink is Postfix's smtp-sink where it is installed (C, and the fastest there is), else our own relay. It writes down
every message, in memory where the system has a folder for that, so that all of them can be checked afterwards.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import databases
from tests.support.children import child
from tests.support.ports import HOST, free_port, wait_for_port
from tests.support.postgres import NOT_FOUND, PostgresServer, find_binaries, running_postgres

#: As it is installed, but for the memory and the connections that any installation would give it.
DURABLE = {
    "autovacuum_naptime": "1min",
    "fsync": "on",
    "full_page_writes": "on",
    "jit": "on",
    "max_connections": "300",
    "max_wal_size": "4GB",
    "shared_buffers": "512MB",
    "synchronous_commit": "on",
}


@dataclass(slots=True)
class Sink:
    """``kind``: smtp-sink or relay. ``dumps`` are what it has taken so far."""

    kind: str
    port: int
    pid: int
    folder: Path | None

    def dumps(self) -> Sequence[Path]:
        return sorted(self.folder.glob("taken*")) if self.folder else ()

    def connections(self) -> int:
        """Sockets beside the one that listens; -1 where the system does not tell."""
        try:
            files = [
                os.readlink(f"/proc/{self.pid}/fd/{name}") for name in os.listdir(f"/proc/{self.pid}/fd")
            ]
        except OSError:
            return -1
        return sum(file.startswith("socket:") for file in files)


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    """Migrated once into a template; fsync and all else that an operator relies on is on."""
    binaries = find_binaries()
    if binaries is None:
        raise SystemExit(NOT_FOUND)
    with running_postgres(binaries, **DURABLE) as server:
        databases.create_template(server)
        yield server


@contextmanager
def sink(*, keep: bool = True) -> Iterator[Sink]:
    """``keep=False`` writes nothing down: only to see what the writing costs."""
    if shutil.which("smtp-sink") is None:
        with relay() as ours:
            yield ours
        return
    with _scratch() as folder:
        port = free_port()
        command = ["smtp-sink"]
        if os.geteuid() == 0:
            command += ["-u", "nobody"]
        if keep:
            command += ["-R", str(folder), "-D", "taken."]
        with child([*command, f"{HOST}:{port}", "1000"], stderr=subprocess.DEVNULL) as process:
            wait_for_port(port)
            yield Sink("smtp-sink", port, process.pid, folder if keep else None)


@contextmanager
def relay(*, round_trip: float = 0.0, dot: float = 0.0, pipelining: bool = True) -> Iterator[Sink]:
    """Our own, with the delays of a far one. Its record is whole when it has ended, so callers :func:`stop` it."""
    with _scratch() as folder:
        port = free_port()
        command = [sys.executable, "-m", "tests.benchmarks.relay", "--port", str(port)]
        command += ["--record", str(folder / "taken"), "--round-trip", str(round_trip), "--dot", str(dot)]
        if not pipelining:
            command.append("--no-pipelining")
        root = Path(__file__).resolve().parents[2]
        with child(command, cwd=root) as process:
            wait_for_port(port)
            yield Sink("relay", port, process.pid, folder)


def stop(sink: Sink) -> None:
    """Ends it and waits, so that all it has taken is on record."""
    os.kill(sink.pid, signal.SIGTERM)
    os.waitpid(sink.pid, 0)


@contextmanager
def _scratch() -> Iterator[Path]:
    """In memory where possible: the disk belongs to the database."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="outbox-bench-", dir=memory if memory.is_dir() else None))
    folder.chmod(0o777)  # smtp-sink gives up its rights before it writes
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
