"""Both or neither, keys, and what a producer needs: promises (1), (2a), (3) and (9)."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from outbox_admin import IdempotencyConflict, Message, NotTransactional, Outbox
from outbox_admin.demo.relay import Catcher
from tests.contract.bench import JANE, Bench
from tests.contract.promises import proves

ORDERS = sa.Table("orders", sa.MetaData(), sa.Column("number", sa.Integer, primary_key=True))


@pytest.fixture
def shop(engine: sa.Engine, tmp_path: Path) -> Bench:
    ORDERS.create(engine)
    return Bench(engine, tmp_path)


def orders(shop: Bench) -> list[int]:
    with shop.engine.connect() as db:
        return list(db.scalars(sa.select(ORDERS.c.number)))


def order(db: Any, number: int) -> None:
    db.execute(sa.insert(ORDERS).values(number=number))


@proves("1a")
def test_a_rollback_takes_the_mail_along_and_a_commit_stores_both(shop: Bench) -> None:
    with Session(shop.engine) as db:
        order(db, 1)
        shop.enqueue(db)
        db.rollback()
    with shop.engine.connect() as connection:
        order(connection, 2)
        shop.enqueue(connection)
        connection.rollback()
    assert (orders(shop), shop.rows()) == ([], [])
    with Session(shop.engine) as db, db.begin():
        order(db, 3)
        shop.enqueue(db)
    assert (orders(shop), shop.states()) == ([3], ["pending"])


@proves("1a")
def test_a_rollback_to_a_savepoint_takes_the_mail_along(shop: Bench) -> None:
    with Session(shop.engine) as db, db.begin():
        order(db, 1)
        with db.begin_nested() as savepoint:
            shop.enqueue(db)
            savepoint.rollback()
    assert (orders(shop), shop.rows()) == ([1], [])


@proves("1b")
def test_a_connection_in_autocommit_is_refused(shop: Bench) -> None:
    autocommit = shop.engine.execution_options(isolation_level="AUTOCOMMIT")
    with autocommit.connect() as db, pytest.raises(NotTransactional, match="AUTOCOMMIT"):
        shop.enqueue(db)
    assert shop.rows() == []


@proves("1c")
def test_a_table_on_another_connection_is_refused_unless_meant(shop: Bench) -> None:
    from outbox_admin.db.schema import email_outbox

    elsewhere = sa.create_engine("sqlite://")
    binds: dict[Any, Any] = {email_outbox: shop.engine}
    with Session(elsewhere, binds=binds) as db:
        with pytest.raises(NotTransactional):
            shop.enqueue(db)
        db.rollback()
        shop.outbox.enqueue(db, Message(JANE, "s", "t"), idempotency_key="k", atomic=False)
        db.commit()
    elsewhere.dispose()
    assert shop.states() == ["pending"]


@proves("2a")
def test_after_the_commit_the_message_is_stored_and_no_relay_was_asked(
    engine: sa.Engine, tmp_path: Path
) -> None:
    with Catcher() as relay:
        bench = Bench(engine, tmp_path, relay=relay)
        row = bench.row(bench.add())
        assert (row.state, row.attempts, row.tries, relay.messages) == ("pending", 0, 0, [])
        assert row.payload is not None


@proves("3a")
def test_the_same_key_again_adds_nothing_and_the_transaction_goes_on(shop: Bench) -> None:
    with Session(shop.engine) as db, db.begin():
        first = shop.outbox.enqueue(db, Message(JANE, "One", "1"), idempotency_key="verify:42")
        again = shop.outbox.enqueue(db, Message(JANE, "Two", "2"), idempotency_key="verify:42")
        order(db, 7)
    assert (first.created, again.created, again.id) == (True, False, first.id)
    assert (orders(shop), len(shop.rows())) == ([7], 1)


@proves("3b")
def test_the_same_key_for_other_recipients_is_a_conflict_and_writes_nothing(shop: Bench) -> None:
    with Session(shop.engine) as db, db.begin():
        shop.enqueue(db, JANE, key="verify:42")
        with pytest.raises(IdempotencyConflict):
            shop.enqueue(db, "john@customer.example", key="verify:42")
        order(db, 8)
    assert (orders(shop), [row.recipient for row in shop.rows()]) == ([8], [JANE])


@proves("3c")
def test_a_key_has_to_be_given() -> None:
    key = inspect.signature(Outbox.enqueue).parameters["idempotency_key"]
    assert key.default is inspect.Parameter.empty
    assert key.kind is inspect.Parameter.KEYWORD_ONLY


@proves("3d")
def test_a_key_is_remembered_as_long_as_its_row(shop: Bench) -> None:
    shop.add(key="verify:42")
    shop.drain()
    shop.clock.advance(days=89)
    shop.drain()
    shop.add(key="verify:42")
    assert shop.states() == ["sent"]
    shop.clock.advance(days=2)
    shop.drain()
    shop.add(key="verify:42")
    assert shop.states() == ["pending"]


@proves("9a")
def test_a_producer_writes_one_table_and_needs_only_the_ring(shop: Bench) -> None:
    statements: list[str] = []

    def note(_c: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        statements.append(statement.strip())

    sa.event.listen(shop.engine, "before_cursor_execute", note)
    with Session(shop.engine) as db, db.begin():
        shop.enqueue(db)
    writes = [text for text in statements if text.startswith(("INSERT", "UPDATE", "DELETE"))]
    assert len(writes) == 1
    assert writes[0].startswith("INSERT INTO email_outbox")
