"""Real processes on one database: every row is claimed by one of them, every id is drawn once."""

import multiprocessing
import os
from multiprocessing import resource_tracker
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin.db.engine import create
from outbox_admin.db.store import results
from outbox_admin.ids import new_id
from tests.db.rows import NOW, accepted, add, attempts, claim, counted, result

PROCESSES = 4


def drain(url: str) -> list[UUID]:
    """One worker without a relay: claims and records until it finds nothing."""
    engine = create(url)
    mine: list[UUID] = []
    while True:
        with engine.begin() as db:
            owned = claim(db, limit=20)
        if not owned:
            engine.dispose()
            return mine
        with engine.begin() as db:
            told = [result(one, accepted()) for one in owned]
            mine += results.record(db, told, now=NOW, worker=f"{os.getpid()}", shard=os.getpid())


@pytest.fixture(scope="module", autouse=True)
def _tracker() -> None:
    """What multiprocessing starts once for the length of this process is no test's leftover."""
    resource_tracker.ensure_running()


def test_oc_45_workers_on_one_queue_take_each_row_once(engine: sa.Engine, database_url: str) -> None:
    with engine.begin() as db:
        rows = [add(db) for _ in range(400)]
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as processes:
        taken = [row_id for mine in processes.map(drain, [database_url] * PROCESSES) for row_id in mine]
    with engine.begin() as db:
        for _ in range(2):  # a process may leave having lost every race
            left = [result(one, accepted()) for one in claim(db, limit=400)]
            taken += results.record(db, left, now=NOW, worker="last")
        assert counted(db) == {"accepted": 400}
        assert attempts(db, rows[0]) == []
    assert sorted(taken) == rows


def draw(_: int) -> list[UUID]:
    return [new_id() for _ in range(200)]


def test_forked_processes_draw_different_ids() -> None:
    new_id()  # so that there is a state to inherit
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"".join(one.bytes for one in draw(0)))
        os._exit(0)
    os.close(writer)
    own = draw(0)
    with os.fdopen(reader, "rb") as pipe:
        octets = pipe.read()
    os.waitpid(child, 0)
    theirs = [UUID(bytes=octets[start : start + 16]) for start in range(0, len(octets), 16)]
    assert len(theirs) == 200
    assert len({*own, *theirs}) == 400


def test_ids_grow_within_a_process_and_are_version_7() -> None:
    ids = draw(0)
    assert ids == sorted(ids)
    assert {one.version for one in ids} <= {7, None}
    assert {one.int >> 76 & 0xF for one in ids} == {7}
