"""Enqueue: rows in the caller's own transaction, sealed, once for each key."""

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from outbox_admin.core.frozen import Frozen
from outbox_admin.core.lifecycle import State
from outbox_admin.core.message import Message, TemplatedMessage
from outbox_admin.crypto.envelope import Binding
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.db.schema import suppression
from outbox_admin.errors import IdempotencyConflict, MessageRefused, NotTransactional
from outbox_admin.producer import Entry, Outbox
from tests.producer.orders import Base, Order, mail, orders, rows


@pytest.fixture(autouse=True)
def tables(engine: sa.Engine) -> None:
    Base.metadata.create_all(engine)


def test_a_mail_and_the_order_are_committed_together(engine: sa.Engine, outbox: Outbox) -> None:
    with Session(engine) as session, session.begin():
        session.add(Order(id=1, note="n"))
        receipt = outbox.enqueue(session, mail(), idempotency_key="order:1")
    [row] = rows(engine)
    assert (receipt.id, receipt.created, receipt.rows[0].state) == (row.id, True, State.PENDING)
    assert (row.state, row.recipient, row.part, row.attempts, row.max_attempts) == (
        "pending",
        "jane@example.com",
        0,
        0,
        8,
    )
    assert orders(engine) == [1]


def test_a_rolled_back_transaction_leaves_nothing(engine: sa.Engine, outbox: Outbox) -> None:
    with Session(engine) as session:
        session.add(Order(id=1, note="n"))
        outbox.enqueue(session, mail(), idempotency_key="order:1")
        session.rollback()
    assert (rows(engine), orders(engine)) == ([], [])


def test_a_rolled_back_savepoint_leaves_nothing(engine: sa.Engine, outbox: Outbox) -> None:
    with Session(engine) as session, session.begin():
        savepoint = session.begin_nested()
        outbox.enqueue(session, mail(), idempotency_key="order:1")
        savepoint.rollback()
        session.add(Order(id=2, note="n"))
    assert (rows(engine), orders(engine)) == ([], [2])


def test_a_row_of_a_first_savepoint_goes_with_the_outer_rollback(engine: sa.Engine, outbox: Outbox) -> None:
    with Session(engine) as session:
        with session.begin_nested():
            outbox.enqueue(session, mail(), idempotency_key="order:1")
        session.rollback()
    assert rows(engine) == []


def test_every_kind_of_connection_will_do(engine: sa.Engine, outbox: Outbox) -> None:
    with engine.begin() as connection:
        outbox.enqueue(connection, mail(), idempotency_key="1")
    with Session(engine) as session:
        outbox.enqueue(session, mail(), idempotency_key="2")
        session.commit()
    scoped = scoped_session(sessionmaker(engine))
    outbox.enqueue(scoped, mail(), idempotency_key="3")
    scoped.commit()
    scoped.remove()
    with engine.connect() as connection, Session(connection) as session:
        outbox.enqueue(session, mail(), idempotency_key="4")
        session.commit()
        connection.commit()
    assert [row.idempotency_key for row in rows(engine)] == ["1", "2", "3", "4"]


def test_nothing_is_committed_by_enqueue(engine: sa.Engine, outbox: Outbox) -> None:
    with engine.connect() as connection:
        outbox.enqueue(connection, mail(), idempotency_key="1")
        assert connection.in_transaction()
    assert rows(engine) == []


def test_nothing_of_the_session_is_flushed(engine: sa.Engine, outbox: Outbox) -> None:
    with Session(engine) as session:
        session.add(order := Order(id=1, note="n"))
        outbox.enqueue(session, mail(), idempotency_key="1")
        outbox.enqueue(session, mail(), idempotency_key="1")
        outbox.cancel(session, "1")
        assert order in session.new


def test_one_statement_for_one_recipient_and_two_for_several(engine: sa.Engine, outbox: Outbox) -> None:
    statements: list[str] = []
    sa.event.listen(
        engine, "before_cursor_execute", lambda c, cursor, text, *rest: statements.append(text.split()[0])
    )
    with engine.begin() as connection:
        outbox.enqueue(connection, mail(), idempotency_key="1")
        assert statements.count("INSERT") == len([one for one in statements if one != "BEGIN"]) == 1
        statements.clear()
        outbox.enqueue(
            connection, mail(["a@example.com", "b@example.com", "c@example.com"]), idempotency_key="2"
        )
        assert statements == ["INSERT", "INSERT"]


def test_several_recipients_become_parts_in_the_order_to_cc_bcc(engine: sa.Engine, outbox: Outbox) -> None:
    message = mail(
        ["a@example.com", "b@example.com"], cc="c@example.com", bcc=["d@example.com", "a@example.com"]
    )
    with engine.begin() as connection:
        receipt = outbox.enqueue(connection, message, idempotency_key="1")
    stored = rows(engine)
    assert [(row.part, row.recipient[0]) for row in stored] == [(0, "a"), (1, "b"), (2, "c"), (3, "d")]
    assert len({row.message_id for row in stored}) == 1
    assert stored[0].message_id == f"<{receipt.id}@shop.example>"
    assert [row.id for row in receipt.rows] == [row.id for row in stored]


def test_each_row_is_sealed_for_itself(engine: sa.Engine, outbox: Outbox, ring: KeyRing) -> None:
    with engine.begin() as connection:
        outbox.enqueue(
            connection, mail(["a@example.com", "b@example.com"], text="canary"), idempotency_key="1"
        )
    one, two = rows(engine)
    for row in (one, two):
        binding = Binding(row.id, row.idempotency_key, row.recipient, row.template_key)
        assert Frozen.from_bytes(ring.open(row.payload, binding)).text == "canary"
        assert row.key_id == ring.newest_id
        assert row.payload_size == len(row.payload)
        assert b"canary" not in row.payload
    assert one.payload != two.payload


def test_the_same_key_again_gives_the_rows_of_then(engine: sa.Engine, outbox: Outbox) -> None:
    both = ["a@example.com", "b@example.com"]
    with engine.begin() as connection:
        first = outbox.enqueue(connection, mail(both), idempotency_key="1")
    with engine.begin() as connection:
        second = outbox.enqueue(connection, mail(both, text="another"), idempotency_key="1")
    assert (second.created, second.id, second.rows) == (False, first.id, first.rows)
    assert len(rows(engine)) == 2


def test_the_order_and_case_of_recipients_do_not_matter(engine: sa.Engine, outbox: Outbox) -> None:
    with engine.begin() as connection:
        outbox.enqueue(connection, mail(["a@example.com", "B@example.com"]), idempotency_key="1")
        again = outbox.enqueue(connection, mail(["b@example.com", "a@EXAMPLE.com"]), idempotency_key="1")
    assert again.created is False


@pytest.mark.parametrize("others", ["b@example.com", ["a@example.com", "b@example.com"]])
def test_other_recipients_under_the_same_key_are_a_conflict(
    engine: sa.Engine, outbox: Outbox, others: str | list[str]
) -> None:
    with Session(engine) as session, session.begin():
        outbox.enqueue(session, mail("a@example.com"), idempotency_key="order:1")
        with pytest.raises(IdempotencyConflict, match="order:1") as refusal:
            outbox.enqueue(session, mail(others), idempotency_key="order:1")
        assert "example.com" not in str(refusal.value)
        session.add(Order(id=1, note="the transaction is still usable"))
    assert (len(rows(engine)), orders(engine)) == (1, [1])


def test_a_suppressed_recipient_is_cancelled_at_once_and_the_receipt_says_so(
    engine: sa.Engine, outbox: Outbox
) -> None:
    now = datetime(2026, 12, 1, tzinfo=UTC)
    with engine.begin() as connection:
        gone = {"recipient_key": "gone@example.com", "reason": "bounced", "who": "op", "created_at": now}
        connection.execute(sa.insert(suppression).values(gone))
        receipt = outbox.enqueue(connection, mail(["a@example.com", "Gone@example.com"]), idempotency_key="1")
        again = outbox.enqueue(connection, mail(["a@example.com", "Gone@example.com"]), idempotency_key="1")
    one, two = rows(engine)
    assert [row.state for row in receipt.rows] == [State.PENDING, State.CANCELLED]
    assert [row.recipient for row in receipt.suppressed] == ["Gone@example.com"]
    assert (again.created, again.suppressed) == (False, ())
    assert (one.state, one.cause_kind, one.finished_at) == ("pending", None, None)
    assert (two.state, two.cause_phase, two.cause_kind) == ("cancelled", "prepare", "suppressed")
    assert (two.payload, two.key_id) == (None, None)
    assert two.finished_at == two.created_at


def test_every_option_has_its_column(engine: sa.Engine, outbox: Outbox) -> None:
    start = datetime.now(UTC) + timedelta(hours=1)
    options = {
        "priority": 2,
        "supersede_key": "s",
        "on_unknown": "hold",
        "max_attempts": 3,
        "correlation_id": "c",
    }
    with engine.begin() as connection:
        outbox.enqueue(
            connection,
            mail(),
            idempotency_key="1",
            template_key="order.confirm",
            not_before=start,
            expires_at=start + timedelta(days=1),
            **options,
        )
    [row] = rows(engine)
    assert {name: getattr(row, name) for name in options} == options
    assert (row.template_key, row.not_before, row.expires_at) == (
        "order.confirm",
        start,
        start + timedelta(days=1),
    )
    assert row.due_at == row.first_due_at == start
    assert row.created_at < start


def test_rows_are_due_when_they_are_added(engine: sa.Engine, outbox: Outbox) -> None:
    past = datetime.now(UTC) - timedelta(hours=1)
    with engine.begin() as connection:
        outbox.enqueue(connection, mail(), idempotency_key="1", not_before=past)
    [row] = rows(engine)
    assert row.created_at == row.due_at == row.first_due_at
    assert abs(row.created_at - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.postgresql
def test_postgresql_dates_rows_by_the_statement_not_by_the_host_or_the_transaction(
    postgres_engine: sa.Engine, ring: KeyRing
) -> None:
    wrong = datetime(2001, 1, 1, tzinfo=UTC)
    outbox = Outbox(keys=ring, sender="a@shop.example", clock=lambda: wrong)
    with postgres_engine.begin() as connection:
        began = connection.execute(sa.text("SELECT now()")).scalar_one()
        outbox.enqueue(connection, mail(), idempotency_key="1")
    [row] = rows(postgres_engine)
    assert row.created_at > began


def test_a_late_rendered_message_is_known_by_its_template(
    engine: sa.Engine, outbox: Outbox, ring: KeyRing
) -> None:
    message = TemplatedMessage("account.verify", {"name": "Jane"}, "jane@example.com", "de")
    with engine.begin() as connection:
        outbox.enqueue(connection, message, idempotency_key="1")
    [row] = rows(engine)
    assert row.template_key == "account.verify"
    opened = ring.open(row.payload, Binding(row.id, "1", row.recipient, row.template_key))
    assert Frozen.from_bytes(opened).late


@pytest.mark.parametrize("key", ["", " " * 201, "x" * 201, "a\x00b", "a\nb", "\ud800", None, 7])
def test_a_key_that_names_nothing_is_refused(engine: sa.Engine, outbox: Outbox, key: str) -> None:
    with engine.begin() as connection, pytest.raises(MessageRefused) as refusal:
        outbox.enqueue(connection, mail(), idempotency_key=key)
    assert refusal.value.field == "idempotency_key"
    assert rows(engine) == []


def test_a_refused_message_leaves_the_transaction_usable(engine: sa.Engine, outbox: Outbox) -> None:
    with Session(engine) as session, session.begin():
        session.add(Order(id=1, note="n"))
        with pytest.raises(MessageRefused):
            outbox.enqueue(session, mail("not an address"), idempotency_key="1")
    assert (rows(engine), orders(engine)) == ([], [1])


def test_a_bad_default_sender_is_refused_at_once(ring: KeyRing) -> None:
    with pytest.raises(MessageRefused, match="sender"):
        Outbox(keys=ring, sender="Shop")


def test_many_messages_take_few_statements_and_keep_their_order(engine: sa.Engine, outbox: Outbox) -> None:
    statements: list[str] = []
    sa.event.listen(
        engine, "before_cursor_execute", lambda c, cursor, text, *rest: statements.append(text.split()[0])
    )
    entries = [
        Entry(mail(["a@example.com", "b@example.com"]), f"m:{number:03}", priority=2) for number in range(250)
    ]
    with engine.begin() as connection:
        receipts = outbox.enqueue_many(connection, reversed(entries))
    assert statements.count("INSERT") == 2
    stored = rows(engine)
    assert len(stored) == 500
    assert [receipt.id for receipt in reversed(receipts)] == [row.id for row in stored if row.part == 0]
    assert {row.priority for row in stored} == {2}


def test_keys_that_exist_or_repeat_are_told_among_many(engine: sa.Engine, outbox: Outbox) -> None:
    with engine.begin() as connection:
        known = outbox.enqueue(connection, mail(), idempotency_key="b")
        receipts = outbox.enqueue_many(connection, [Entry(mail(), key) for key in ("a", "b", "c", "a")])
    assert [receipt.created for receipt in receipts] == [True, False, True, False]
    assert (receipts[1].id, receipts[3].id) == (known.id, receipts[0].id)
    assert [row.idempotency_key for row in rows(engine)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "bad", [Entry(mail("b@example.com"), "known"), Entry(mail("nobody"), "z"), Entry(mail(), "")]
)
def test_one_bad_entry_leaves_none_of_many(engine: sa.Engine, outbox: Outbox, bad: Entry) -> None:
    with Session(engine) as session, session.begin():
        outbox.enqueue(session, mail("a@example.com"), idempotency_key="known")
        with pytest.raises((IdempotencyConflict, MessageRefused)):
            outbox.enqueue_many(session, [Entry(mail(), "a"), bad, Entry(mail(), "x")])
        session.add(Order(id=1, note="n"))
    assert [row.idempotency_key for row in rows(engine)] == ["known"]
    assert orders(engine) == [1]


def test_none_of_many_is_no_statement(engine: sa.Engine, outbox: Outbox) -> None:
    with engine.begin() as connection:
        assert outbox.enqueue_many(connection, []) == []


def test_what_waits_can_be_withdrawn_by_its_key(engine: sa.Engine, outbox: Outbox) -> None:
    with engine.begin() as connection:
        outbox.enqueue(connection, mail(["a@example.com", "b@example.com"]), idempotency_key="1")
        outbox.enqueue(connection, mail(), idempotency_key="2")
        assert outbox.cancel(connection, "1") == 2
        assert outbox.cancel(connection, "1") == 0
        assert outbox.cancel(connection, "unknown") == 0
    stored = rows(engine)
    assert [row.state for row in stored] == ["cancelled", "cancelled", "pending"]
    assert (stored[0].payload, stored[0].key_id) == (None, None)
    assert stored[0].finished_at is not None


def test_an_engine_is_no_transaction(engine: sa.Engine, outbox: Outbox) -> None:
    with pytest.raises(NotTransactional, match="Engine"):
        outbox.enqueue(engine, mail(), idempotency_key="1")  # type: ignore[arg-type]


def test_a_receipt_shows_no_address(engine: sa.Engine, outbox: Outbox) -> None:
    with engine.begin() as connection:
        receipt = outbox.enqueue(connection, mail("secret@example.com"), idempotency_key="1")
    assert "secret" not in repr(receipt)
    assert "secret" not in repr(Entry(mail("secret@example.com"), "1"))


def test_a_finished_message_keeps_its_own_id(engine: sa.Engine, outbox: Outbox) -> None:
    given = (
        b"From: Jane <jane@example.com>\r\nTo: a@example.com\r\nSubject: Hi\r\nMessage-ID: <own@example.com>\r\n"
        b"Date: Tue, 01 Dec 2026 03:00:00 +0000\r\n\r\nHello\r\n"
    )
    with engine.begin() as connection:
        receipt = outbox.enqueue(
            connection, Message.from_mime(given, to="b@example.com"), idempotency_key="1"
        )
    [row] = rows(engine)
    assert (row.id, row.recipient, row.message_id) == (receipt.id, "b@example.com", "<own@example.com>")
