"""Connections on which "both or neither" would not hold are refused before anything is written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import Session

from outbox_admin.db.migrations import upgrade
from outbox_admin.db.schema import email_outbox
from outbox_admin.errors import NotTransactional
from outbox_admin.producer import Entry, Outbox, prepare_sqlite
from tests.producer.orders import mail, rows


def refused(outbox: Outbox, db: Any, match: str) -> None:
    with pytest.raises(NotTransactional, match=match):
        outbox.enqueue(db, mail(), idempotency_key="1")
    with pytest.raises(NotTransactional, match=match):
        outbox.enqueue_many(db, [Entry(mail(), "1")])
    with pytest.raises(NotTransactional, match=match):
        outbox.cancel(db, "1")


def test_autocommit_by_the_engine(database_url: str, engine: sa.Engine, outbox: Outbox) -> None:
    careless = sa.create_engine(database_url, isolation_level="AUTOCOMMIT")
    with careless.connect() as connection:
        refused(outbox, connection, "AUTOCOMMIT")
    with Session(careless) as session:
        refused(outbox, session, "AUTOCOMMIT")
    careless.dispose()
    assert rows(engine) == []


def test_autocommit_by_a_prepared_engine(sqlite_url: str, outbox: Outbox) -> None:
    careless = prepare_sqlite(sa.create_engine(sqlite_url, isolation_level="AUTOCOMMIT"))
    with careless.connect() as connection:
        refused(outbox, connection, "AUTOCOMMIT")
    careless.dispose()


def test_autocommit_by_the_engines_options(engine: sa.Engine, outbox: Outbox) -> None:
    careless = engine.execution_options(isolation_level="AUTOCOMMIT")
    with careless.connect() as connection:
        refused(outbox, connection, "AUTOCOMMIT")
    assert rows(engine) == []


def test_autocommit_by_the_connections_options(engine: sa.Engine, outbox: Outbox) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        refused(outbox, connection, "AUTOCOMMIT")
    with Session(engine) as session:
        session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
        refused(outbox, session, "AUTOCOMMIT")
    assert rows(engine) == []


def test_autocommit_by_the_driver_of_sqlite(sqlite_url: str, outbox: Outbox) -> None:
    careless = sa.create_engine(sqlite_url, connect_args={"isolation_level": None})
    with careless.connect() as connection:
        refused(outbox, connection, "AUTOCOMMIT")
    careless.dispose()


@pytest.mark.postgresql
def test_autocommit_by_the_driver_of_postgresql(postgres_url: str, outbox: Outbox) -> None:
    careless = sa.create_engine(postgres_url, connect_args={"autocommit": True})
    with careless.connect() as connection:
        refused(outbox, connection, "AUTOCOMMIT")
    careless.dispose()


def test_autocommit_may_be_meant(engine: sa.Engine, outbox: Outbox) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        outbox.enqueue(connection, mail(), idempotency_key="1", atomic=False)
        outbox.enqueue_many(connection, [Entry(mail(), "2")], atomic=False)
        assert outbox.cancel(connection, "2", atomic=False) == 1
    assert [row.state for row in rows(engine)] == ["pending", "cancelled"]


def test_an_engine_that_begins_by_itself_as_sqlalchemy_documents_it(sqlite_url: str, outbox: Outbox) -> None:
    own = sa.create_engine(sqlite_url, connect_args={"isolation_level": None})
    sa.event.listen(own, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    with own.begin() as connection:
        outbox.enqueue(connection, mail(), idempotency_key="1")
    assert len(rows(own)) == 1
    own.dispose()


def test_a_plain_sqlite_engine_will_do_without_savepoints(sqlite_url: str, outbox: Outbox) -> None:
    plain = sa.create_engine(sqlite_url)
    with plain.connect() as connection:
        outbox.enqueue(connection, mail(), idempotency_key="1")
        outbox.enqueue_many(connection, [Entry(mail(), "2"), Entry(mail(), "3")])
        connection.rollback()
    assert rows(plain) == []
    with plain.begin() as connection:
        outbox.enqueue(connection, mail(), idempotency_key="1")
    assert len(rows(plain)) == 1
    plain.dispose()


def test_a_savepoint_on_an_unprepared_sqlite_engine_names_the_cure(sqlite_url: str, outbox: Outbox) -> None:
    plain = sa.create_engine(sqlite_url)
    with Session(plain) as session, session.begin(), session.begin_nested():
        refused(outbox, session, "prepare_sqlite")
    assert rows(plain) == []
    prepare_sqlite(plain)
    with Session(plain) as session, session.begin(), session.begin_nested():
        outbox.enqueue(session, mail(), idempotency_key="1")
    assert len(rows(plain)) == 1
    plain.dispose()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[sa.Engine]:
    """A second database with the outbox's tables."""
    engine = sa.create_engine(f"sqlite:///{tmp_path}/other.db")
    upgrade(engine)
    yield engine
    engine.dispose()


def test_an_outbox_that_is_bound_elsewhere(engine: sa.Engine, other: sa.Engine, outbox: Outbox) -> None:
    with Session(engine, binds={email_outbox: other}) as session:
        refused(outbox, session, "default bind")
        outbox.enqueue(session, mail(), idempotency_key="1", atomic=False)
        session.commit()
    assert (len(rows(engine)), len(rows(other))) == (0, 1)


def test_an_outbox_bound_to_the_default_by_name(engine: sa.Engine, outbox: Outbox) -> None:
    with Session(engine, binds={email_outbox: engine}) as session, session.begin():
        outbox.enqueue(session, mail(), idempotency_key="1")
    assert len(rows(engine)) == 1


def test_a_session_without_a_default(engine: sa.Engine, outbox: Outbox) -> None:
    with Session(binds={email_outbox: engine}) as session:
        refused(outbox, session, "default bind")


def test_a_session_that_chooses_its_bind_itself(engine: sa.Engine, other: sa.Engine, outbox: Outbox) -> None:
    class Routing(Session):
        def get_bind(self, mapper: Any = None, *, clause: Any = None, **rest: Any) -> sa.Engine:
            return other if isinstance(clause, sa.Insert) else engine

    with Routing() as session:
        refused(outbox, session, "default bind")


def test_flask_sqlalchemys_session(
    database_url: str, engine: sa.Engine, other: sa.Engine, outbox: Outbox
) -> None:
    app = Flask("shop")
    app.config["SQLALCHEMY_DATABASE_URI"] = database_url
    app.config["SQLALCHEMY_BINDS"] = {"elsewhere": str(other.url)}
    db = SQLAlchemy(app)
    with app.app_context():
        prepare_sqlite(db.engine)
        outbox.enqueue(db.session, mail(), idempotency_key="1")
        db.session.rollback()
        outbox.enqueue(db.session, mail(), idempotency_key="2")
        db.session.commit()
        for each in db.engines.values():
            each.dispose()
    assert [row.idempotency_key for row in rows(engine)] == ["2"]
