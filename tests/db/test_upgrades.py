"""An upgrade beside an application that goes on: who waits for whom, and what is said about it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from outbox_admin.db import migrations
from outbox_admin.db.engine import create
from outbox_admin.db.migrations import Check, lock, waits
from outbox_admin.db.store import sqlite
from outbox_admin.errors import UpgradeBlocked
from tests.db.rows import add
from tests.support.databases import sqlite_url, upgrade_to
from tests.support.waiting import LIMIT, until

postgresql = pytest.mark.postgresql
VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('ix_email_outbox_keyed')"
#: The index is being built and waits for transactions that are older.
BUILDING = (
    "SELECT pid FROM pg_stat_progress_create_index"
    " WHERE datname = current_database() AND phase LIKE 'waiting%' AND current_locker_pid <> 0"
)


@pytest.fixture
def engine(empty_postgres_url: str) -> Iterator[sa.Engine]:
    # Whoever waits for ever fails.
    engine = create(empty_postgres_url, connect_args={"options": f"-c statement_timeout={LIMIT:.0f}s"})
    yield engine
    engine.dispose()


@pytest.fixture
def old(engine: sa.Engine) -> sa.Engine:
    """A database before the index."""
    upgrade_to("0004", engine)
    return engine


@contextmanager
def upgrading(engine: sa.Engine, told: list[str]) -> Iterator[Future[Check]]:
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(migrations.upgrade, engine, told.append)


@contextmanager
def upgrading_when(engine: sa.Engine, told: list[str], condition: str) -> Iterator[Future[Check]]:
    assert until(lambda: ask(engine, condition))
    with upgrading(engine, told) as future:
        yield future


def ask(engine: sa.Engine, question: str) -> object:
    with engine.connect() as db:
        return db.execute(sa.text(question)).scalar()


@postgresql
def test_producers_insert_and_a_second_upgrade_waits_while_an_index_is_built(
    old: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.01)
    told: list[str] = []
    with old.connect() as open_one:
        add(open_one)  # and does not commit: the index waits for it
        with upgrading(old, []) as first, upgrading_when(old, told, BUILDING) as second:
            assert until(lambda: told)
            assert told[0].startswith("Another upgrade is at work (session ")
            with old.begin() as producer:
                producer.execute(sa.text("SET LOCAL lock_timeout = '2s'"))
                add(producer)
            assert ask(old, BUILDING)
            assert [first.done(), second.done()] == [False, False]
            open_one.commit()
            assert first.result().ok
            assert second.result().ok
    assert len(told) == 1
    assert ask(old, VALID) is True


@postgresql
def test_an_index_left_unfinished_is_built_anew(old: sa.Engine) -> None:
    with old.connect() as open_one:
        add(open_one)
        with upgrading(old, []) as cut:
            assert until(lambda: ask(old, BUILDING))
            ask(old, f"SELECT pg_cancel_backend(({BUILDING}))")
            with pytest.raises(UpgradeBlocked, match=r"0005 was cancelled.*statement_timeout"):
                cut.result()
    assert migrations.check(old).current == "0004"
    assert ask(old, VALID) is False
    assert migrations.upgrade(old).ok
    assert ask(old, VALID) is True


@postgresql
def test_a_lock_is_not_waited_for_long_and_its_holder_is_named(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "LIMIT", "SET LOCAL lock_timeout = '50ms'")
    monkeypatch.setattr(waits, "LOCK_SECONDS", 0)
    upgrade_to("0003", engine)
    with engine.connect() as dump:
        dump.execute(sa.text("SET application_name = 'nightly dump'"))
        pid = dump.execute(
            sa.text("SELECT pg_backend_pid() FROM (SELECT count(*) FROM email_outbox) AS x")
        ).scalar()
        with pytest.raises(UpgradeBlocked) as blocked:
            migrations.upgrade(engine)
        dump.execute(sa.text("RESET application_name"))
    for said in (
        "0004",
        "email_outbox",
        f"session {pid} (nightly dump, user postgres, idle in transaction",
        "again",
    ):
        assert said in str(blocked.value)
    assert migrations.check(engine).current == "0003"
    assert not sa.inspect(engine).has_table("outbox_route_worker")
    assert migrations.upgrade(engine).ok


@postgresql
def test_an_upgrade_that_lost_its_lock_goes_no_further(engine: sa.Engine) -> None:
    def tell(sentence: str) -> None:
        if ": 0003 " in sentence:
            ask(
                engine,
                "SELECT pg_terminate_backend(l.pid) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)"
                " WHERE l.locktype = 'advisory' AND a.datname = current_database()",
            )

    with pytest.raises(sa.exc.OperationalError):
        migrations.upgrade(engine, tell)
    assert migrations.check(engine).current == "0002"


def test_a_sqlite_file_in_use_is_named_as_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = create(sqlite_url(tmp_path / "busy.db"))
    upgrade_to("0003", engine)
    engine.dispose()
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0)
    with engine.begin(), pytest.raises(UpgradeBlocked, match="0004 found the file in use"):
        migrations.upgrade(engine)
    assert migrations.check(engine).current == "0003"
    engine.dispose()
