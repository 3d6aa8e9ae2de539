"""A commit wakes the worker of the same process: which commits do, and that producers neither notice nor are kept."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import Session

from outbox_admin import ConfigurationError, Message, wakeup
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.producer import Outbox, prepare_sqlite
from tests.support import databases

MAIL = Message("jane@example.com", "Hello", "Hello Jane\n")
Rung = list[str]


@pytest.fixture
def outbox() -> Outbox:
    return Outbox(keys=KeyRing.generate(), sender="Shop <no-reply@shop.example>")


@pytest.fixture
def rung(database_url: str) -> Iterator[Rung]:
    """What a worker of this process has heard, over an engine of its own."""
    heard: Rung = []
    with databases.disposable_engine(database_url) as engine:
        end = wakeup.register(engine, lambda: heard.append("rung"))
        yield heard
        end()


def enqueue(outbox: Outbox, db: Session | sa.Connection, key: str = "order:1") -> None:
    outbox.enqueue(db, MAIL, idempotency_key=key)


def test_a_connections_commit_wakes_and_its_rollback_does_not(
    engine: sa.Engine, outbox: Outbox, rung: Rung
) -> None:
    with engine.connect() as db:
        enqueue(outbox, db)
        db.rollback()
        with db.begin():
            db.execute(sa.text("SELECT 1"))  # the same connection commits, but no mail
        assert rung == []
        with db.begin():
            enqueue(outbox, db)
            assert rung == []
        assert rung == ["rung"]


def test_a_sessions_commit_wakes_and_its_rollback_does_not(
    engine: sa.Engine, outbox: Outbox, rung: Rung
) -> None:
    with Session(engine) as session:
        enqueue(outbox, session)
        session.rollback()
        session.execute(sa.text("SELECT 1"))
        session.commit()
        assert rung == []
        enqueue(outbox, session)
        session.commit()
    assert rung == ["rung"]


def test_flask_sqlalchemys_session_wakes_too(database_url: str, outbox: Outbox, rung: Rung) -> None:
    app = Flask(__name__)
    app.config["SQLALCHEMY_DATABASE_URI"] = database_url
    db = SQLAlchemy(app)
    with app.app_context():
        prepare_sqlite(db.engine)
        outbox.enqueue(db.session, MAIL, idempotency_key="order:1")
        assert rung == []
        db.session.commit()
        db.session.remove()
        db.engine.dispose()
    assert rung == ["rung"]


def test_of_nested_transactions_only_the_outermost_commit_wakes(
    engine: sa.Engine, outbox: Outbox, rung: Rung
) -> None:
    with engine.connect() as db, db.begin() as whole:
        session = Session(db, join_transaction_mode="create_savepoint")
        with session.begin_nested():
            enqueue(outbox, session)
        session.commit()
        session.close()
        assert rung == []
        whole.commit()
    assert rung == ["rung"]


def test_many_messages_of_one_transaction_wake_once(engine: sa.Engine, outbox: Outbox, rung: Rung) -> None:
    with engine.begin() as db:
        for number in range(5):
            enqueue(outbox, db, f"order:{number}")
    assert rung == ["rung"]


def test_a_repeated_key_wakes_nobody(engine: sa.Engine, outbox: Outbox, rung: Rung) -> None:
    for _ in range(2):
        with engine.begin() as db:
            enqueue(outbox, db)
    assert rung == ["rung"]


def test_another_database_wakes_nobody_here(tmp_path: Path, sqlite_template: Path, outbox: Outbox) -> None:
    heard: Rung = []
    here = databases.copy_sqlite(sqlite_template, tmp_path / "here.db")
    other = databases.copy_sqlite(sqlite_template, tmp_path / "other.db")
    with databases.disposable_engine(here) as listening, databases.disposable_engine(other) as engine:
        end = wakeup.register(listening, lambda: heard.append("rung"))
        with engine.begin() as db:
            enqueue(outbox, db)
        end()
    assert heard == []


def test_one_listener_serves_an_engine_and_none_is_placed_where_nobody_waits(
    engine: sa.Engine, outbox: Outbox, rung: Rung, tmp_path: Path, sqlite_template: Path
) -> None:
    def listeners(of: sa.Engine) -> int:
        return len(list(of.dispatch.commit))

    for number in range(3):
        with Session(engine) as session:
            enqueue(outbox, session, f"order:{number}")
            session.commit()
    assert listeners(engine) == 1
    other = databases.copy_sqlite(sqlite_template, tmp_path / "other.db")
    with databases.disposable_engine(other) as alone:
        with alone.begin() as db:
            enqueue(outbox, db)
        assert listeners(alone) == 0


def test_nothing_of_the_producers_is_kept_alive(sqlite_url: str, outbox: Outbox) -> None:
    """Neither its engine nor a session that it left without a word."""

    def produce() -> list[Callable[[], object]]:
        with databases.disposable_engine(sqlite_url) as engine:
            session = Session(engine)
            enqueue(outbox, session)
            kept = [weakref.ref(engine), weakref.ref(session), weakref.ref(session.connection())]
            session.close()
            return kept

    with databases.disposable_engine(sqlite_url) as engine:
        end = wakeup.register(engine, lambda: None)
        left = produce()
        gc.collect()
        end()
    assert [reference() for reference in left] == [None, None, None]


def test_a_word_that_says_nothing_about_notifying_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'off' nor 'urgent'"):
        Outbox(keys=KeyRing.generate(), sender="no-reply@shop.example", notify="always")


def test_a_forked_child_has_no_worker_to_wake(sqlite_engine: sa.Engine) -> None:
    end = wakeup.register(sqlite_engine, lambda: None)
    child = os.fork()
    if child == 0:
        os._exit(len(wakeup._waiting))
    _, status = os.waitpid(child, 0)
    waiting = len(wakeup._waiting)
    end()
    assert (os.waitstatus_to_exitcode(status), waiting, len(wakeup._waiting)) == (0, 1, 0)
