"""The disk under the database is full: nothing is lost, and it goes on by itself when there is room again.

Needs a file system of its own of a few megabytes, and so the right to mount one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.faults.ground import fresh_ground, scratch
from tests.faults.halting import Halt
from tests.faults.nursery import Nursery
from tests.support import databases
from tests.support.postgres import PostgresServer, runner
from tests.support.relay import Relay, then
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.may_skip]


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    with scratch() as folder:
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=777", "tmpfs", str(folder)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("not run: this account may not mount a file system, so that no disk can be full")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """To the last octet; the file is to be removed."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as opened:
        for size in (65536, 4096, 1):
            try:
                while True:
                    opened.write(b"\0" * size)
            except OSError:
                continue
    return ballast


@pytest.fixture
def sqlite_disk(sqlite_template: Path) -> Iterator[tuple[Path, str]]:
    with small_disk(16) as disk:
        yield disk, databases.copy_sqlite(sqlite_template, disk / "outbox.db")


@pytest.fixture
def postgres_disk(postgres_server: PostgresServer, postgres_template: str) -> Iterator[tuple[Path, str]]:
    """The tables of one database in a table space on the small disk; the server's own files are elsewhere."""
    with small_disk(24) as disk:
        (place := disk / "tables").mkdir()
        if account := runner():
            os.chown(place, account["user"], account["group"])
        databases.administer(postgres_server, f"CREATE TABLESPACE small LOCATION '{place}'")
        made = f"CREATE DATABASE small TEMPLATE {postgres_template} TABLESPACE small"
        databases.administer(postgres_server, made)
        try:
            yield disk, postgres_server.url("small")
        finally:
            databases.administer(postgres_server, "DROP DATABASE small WITH (FORCE)")
            databases.administer(postgres_server, "DROP TABLESPACE small")


@pytest.mark.parametrize(
    ("disk", "complaint"),
    [
        ("sqlite_disk", "SQLITE_FULL"),
        pytest.param("postgres_disk", "53100", marks=pytest.mark.postgresql),
    ],
)
def test_a_full_disk_stops_the_mail_and_loses_or_doubles_none(
    disk: str, complaint: str, request: pytest.FixtureRequest, tmp_path: Path, nursery: Nursery
) -> None:
    """The relay has the first message, and its result is not written yet, when the last octet is taken."""
    folder, url = request.getfixturevalue(disk)
    halt = Halt(tmp_path / "halt")
    with (
        Relay({"DOT": [then(halt.action(taken=True), "250 2.0.0 OK")]}, {}) as relay,
        fresh_ground(url, tmp_path, relay.port, nursery, window="1") as ground,
    ):
        ground.enqueue(100)
        worker = ground.start(lanes=2)
        assert halt.reached(), worker.words()
        ballast = fill(folder)
        halt.release()
        assert until(lambda: complaint in worker.words()), worker.words()
        assert refused(lambda: ground.add(500))
        ballast.unlink()
        assert ground.settles(), worker.words()
        assert worker.alive
        found = {(row.state, row.attempts, row.maybe_delivered) for row in ground.rows()}
        assert found == {("sent", 1, False)}
        assert len(ground.rows()) == len(relay.messages) == 100
        ground.add(1)


def refused(step: Callable[[], object]) -> bool:
    """A producer is told, and its transaction is as if it had not been."""
    try:
        step()
    except sa.exc.DBAPIError:
        return True
    return False
