"""A prepared SQLite engine has real transactions."""

import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from outbox_admin.db.store.sqlite import BEGIN_OPTION, is_prepared, prepare_sqlite, require_version
from outbox_admin.errors import ConfigurationError
from tests.db.rows import add


def pragma(db: sa.Connection, name: str) -> object:
    return db.exec_driver_sql(f"PRAGMA {name}").scalar_one()


def test_the_file_waits_forgets_and_follows_its_keys(sqlite_url: str) -> None:
    engine = prepare_sqlite(sa.create_engine(sqlite_url))
    with engine.begin() as db:
        assert is_prepared(db)
        names = ("journal_mode", "busy_timeout", "foreign_keys", "secure_delete")
        assert [pragma(db, name) for name in names] == ["wal", 5000, 1, 1]
    engine.dispose()


def test_connections_opened_before_are_prepared_too(sqlite_url: str) -> None:
    engine = sa.create_engine(sqlite_url)
    with engine.begin() as db:
        assert not is_prepared(db)
    prepare_sqlite(prepare_sqlite(engine))
    with engine.begin() as db:
        assert is_prepared(db)
    engine.dispose()


def test_a_file_that_is_no_database_fails_as_any_other_statement(tmp_path: Path) -> None:
    """Whoever waits for a database that cannot be used catches SQLAlchemy's exceptions, never the driver's."""
    file = tmp_path / "outbox.db"
    file.write_bytes(b"garbage" * 1000)
    engine = prepare_sqlite(sa.create_engine(f"sqlite:///{file}"))
    with pytest.raises(sa.exc.DatabaseError, match="not a database"), engine.begin():
        pass
    engine.dispose()


def test_a_database_in_memory_is_kept(tmp_path: Path) -> None:
    engine = prepare_sqlite(sa.create_engine("sqlite://"))
    with engine.begin() as db:
        db.execute(sa.text("CREATE TABLE t (a)"))
    with engine.begin() as db:
        db.execute(sa.text("INSERT INTO t VALUES (1)"))
    engine.dispose()


def test_a_transaction_takes_the_write_lock_at_its_start(sqlite_engine: sa.Engine) -> None:
    """So that no read-to-write upgrade is refused at once when another writer came between."""
    order: list[str] = []

    def other() -> None:
        with sqlite_engine.begin() as db:
            order.append("second")
            add(db)

    with sqlite_engine.begin() as db:
        db.execute(sa.text("SELECT count(*) FROM email_outbox"))
        waiting = threading.Thread(target=other)
        waiting.start()
        add(db)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_a_reader_need_not_wait_for_a_writer(sqlite_engine: sa.Engine) -> None:
    reading = sqlite_engine.execution_options(**{BEGIN_OPTION: "DEFERRED"})
    with sqlite_engine.begin() as writer:
        add(writer)
        with reading.connect() as reader:
            assert reader.execute(sa.text("SELECT count(*) FROM email_outbox")).scalar_one() == 0


def test_a_first_savepoint_is_rolled_back_with_the_rest(sqlite_engine: sa.Engine) -> None:
    with Session(sqlite_engine) as session:
        with session.begin_nested():
            add(session.connection())
        session.rollback()
        assert session.execute(sa.text("SELECT count(*) FROM email_outbox")).scalar_one() == 0


def test_an_old_sqlite_is_refused_with_both_versions() -> None:
    with pytest.raises(ConfigurationError, match=r"3\.34\.1.*3\.35"):
        require_version((3, 34, 1))
    require_version((3, 35, 0))


def test_other_databases_are_left_alone() -> None:
    engine = sa.create_engine("postgresql+psycopg://u@h/db")
    assert prepare_sqlite(engine) is engine
    engine.dispose()
