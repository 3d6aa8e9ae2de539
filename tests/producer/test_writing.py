"""The same key from two callers at the same moment."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from outbox_admin.producer import Entry, Outbox, Receipt
from tests.producer.orders import Base, Order, mail, orders, rows


@pytest.fixture(autouse=True)
def tables(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)


def test_oc_48_1_twice_in_one_transaction(engine: sa.Engine, outbox: Outbox) -> None:
    with Session(engine) as session, session.begin():
        assert outbox.enqueue(session, mail(), idempotency_key="k").created
        session.flush()
        assert not outbox.enqueue(session, mail(), idempotency_key="k").created
        session.add(Order(id=1, note="n"))
    assert (len(rows(engine)), orders(engine)) == (1, [1])


def beside(engine: sa.Engine, outbox: Outbox, end: Callable[[sa.Connection], None]) -> Receipt:
    """The first caller adds the key and waits; the second meets it; the first then ends its transaction."""
    started = threading.Event()

    def second() -> Receipt:
        with engine.begin() as db:
            started.set()
            receipt = outbox.enqueue(db, mail(), idempotency_key="k")
            db.execute(sa.insert(Order).values(id=2, note="second"))
            return receipt

    with ThreadPoolExecutor(1) as callers, engine.connect() as first:
        outbox.enqueue(first, mail(), idempotency_key="k")
        first.execute(sa.insert(Order).values(id=1, note="first"))
        waiting = callers.submit(second)
        if first.dialect.name == "postgresql":
            started.wait()
        end(first)
        return waiting.result()


def test_oc_48_2_the_first_of_two_callers_rolls_back(engine: sa.Engine, outbox: Outbox) -> None:
    receipt = beside(engine, outbox, sa.Connection.rollback)
    assert receipt.created is True
    assert ([row.id for row in rows(engine)], orders(engine)) == ([receipt.id], [2])


def test_oc_48_3_the_first_of_two_callers_commits(engine: sa.Engine, outbox: Outbox) -> None:
    receipt = beside(engine, outbox, sa.Connection.commit)
    assert receipt.created is False
    assert ([row.id for row in rows(engine)], orders(engine)) == ([receipt.id], [1, 2])


def test_oc_48_4_another_body_under_the_same_key(engine: sa.Engine, outbox: Outbox) -> None:
    with engine.begin() as db:
        outbox.enqueue(db, mail(text="first"), idempotency_key="k")
    before = rows(engine)
    with engine.begin() as db:
        assert outbox.enqueue(db, mail(text="second"), idempotency_key="k").created is False
    assert rows(engine) == before


def test_many_callers_of_one_key_add_one_message(engine: sa.Engine, outbox: Outbox) -> None:
    def call(_: int) -> bool:
        with engine.begin() as db:
            return outbox.enqueue(db, mail(["a@example.com", "b@example.com"]), idempotency_key="k").created

    with ThreadPoolExecutor(4) as callers:
        created = list(callers.map(call, range(20)))
    assert created.count(True) == 1
    assert len(rows(engine)) == 2


def test_callers_of_many_keys_in_different_order_do_not_wait_crosswise(
    engine: sa.Engine, outbox: Outbox
) -> None:
    entries = [Entry(mail(), f"k:{number}") for number in range(20)]

    def call(turn: int) -> int:
        mine = entries if turn % 2 else entries[::-1]
        with engine.begin() as db:
            return sum(receipt.created for receipt in outbox.enqueue_many(db, mine))

    with ThreadPoolExecutor(4) as callers:
        assert sum(callers.map(call, range(8))) == 20


@pytest.mark.postgresql
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_above_read_committed_a_concurrent_duplicate_asks_for_a_repetition(
    postgres_engine: sa.Engine, outbox: Outbox, level: str
) -> None:
    strict = postgres_engine.execution_options(isolation_level=level)
    with strict.connect() as late:
        late.execute(sa.text("SELECT count(*) FROM email_outbox"))  # its snapshot is taken here
        with postgres_engine.begin() as db:
            outbox.enqueue(db, mail(), idempotency_key="k")
        with pytest.raises(sa.exc.OperationalError) as failure:
            outbox.enqueue(late, mail(), idempotency_key="k")
        assert failure.value.orig.sqlstate == "40001"  # type: ignore[union-attr]
        late.rollback()
        assert outbox.enqueue(late, mail(), idempotency_key="k").created is False
    assert len(rows(postgres_engine)) == 1


@pytest.mark.postgresql
def test_a_known_key_above_read_committed_is_told_as_below(
    postgres_engine: sa.Engine, outbox: Outbox
) -> None:
    strict = postgres_engine.execution_options(isolation_level="SERIALIZABLE")
    with postgres_engine.begin() as db:
        outbox.enqueue(db, mail(), idempotency_key="k")
    with strict.begin() as db:
        assert outbox.enqueue(db, mail(), idempotency_key="k").created is False
