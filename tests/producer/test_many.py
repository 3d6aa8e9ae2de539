"""enqueue_many against enqueue: the same rows, receipts and refusals, by one statement for 500 rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin.core.message import Attachment, Message, TemplatedMessage
from outbox_admin.crypto.envelope import Binding
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.db.schema import email_outbox, suppression
from outbox_admin.errors import IdempotencyConflict, MessageRefused, OutboxError
from outbox_admin.producer import Entry, Outbox, Receipt, writing
from tests.producer.orders import mail, rows

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=3650)
GIVEN = b"From: s@shop.example\r\nTo: m@example.com\r\nMessage-ID: <own@shop.example>\r\n\r\nHello\r\n"
FILE = Attachment("a.bin", bytes(range(256)) * 8)

#: Every kind of message and option, keys that repeat and that exist, addresses that are suppressed.
ENTRIES = [
    Entry(mail(["b@example.com", "A <a@example.com>", "gone@example.com"], cc="c@example.com"), "several"),
    Entry(
        mail("jörg@bücher.example", subject='Ünï "quoted" \\', html="<p>ü</p>"), "utf8 \u2028 'quoted' \\ key"
    ),
    Entry(mail("GONE@example.com"), "suppressed", priority=0),
    Entry(mail("known@example.com", text="another text"), "known"),
    Entry(TemplatedMessage("account.verify", {"n": [1, None, "x"]}, "t@example.com", "de"), "late"),
    Entry(Message.from_mime(GIVEN), "mime", on_unknown="hold"),
    Entry(mail(bcc=["h@example.com", "i@example.com"], attachments=[FILE]), "hidden", template_key="order"),
    Entry(mail(), "timed", not_before=LATER, expires_at=LATER.replace(year=2099), max_attempts=3),
    Entry(mail(), "keyed", supersede_key="s", correlation_id="c", priority=2),
    Entry(mail(), "past", not_before=NOW - timedelta(days=9)),
    Entry(mail(["B@example.com", "a@EXAMPLE.com", "c@example.com", "gone@example.com"]), "several"),
]
#: What differs from run to run, or follows from such values.
DRAWN = {"id", "payload", "message_id", "created_at", "due_at", "first_due_at", "finished_at"}

Run = Callable[[sa.Connection, Outbox, list[Entry]], list[Receipt]]


def one_by_one(db: sa.Connection, outbox: Outbox, entries: list[Entry]) -> list[Receipt]:
    return [
        outbox.enqueue(
            db,
            entry.message,
            idempotency_key=entry.idempotency_key,
            **{name: getattr(entry.options, name) for name in entry.options.__slots__},
        )
        for entry in entries
    ]


def together(db: sa.Connection, outbox: Outbox, entries: list[Entry]) -> list[Receipt]:
    return outbox.enqueue_many(db, iter(entries))


def outcome(engine: sa.Engine, ring: KeyRing, run: Run) -> tuple[list[Any], list[Any]]:
    """Receipts and rows of a run that is rolled back; ids as places, times as how they lie to each other."""
    outbox = Outbox(keys=ring, sender="Shop <no-reply@shop.example>", clock=lambda: NOW)
    with engine.connect() as db:
        gone = {"recipient_key": "gone@example.com", "reason": "bounced", "who": "op", "created_at": NOW}
        db.execute(sa.insert(suppression).values(gone))
        outbox.enqueue(db, mail("known@example.com"), idempotency_key="known")
        receipts = run(db, outbox, ENTRIES)
        order = (email_outbox.c.idempotency_key, email_outbox.c.part)
        found = list(db.execute(sa.select(email_outbox).order_by(*order)))
        db.rollback()
    ids = [row.id for row in found]
    told = [
        (ids.index(r.id), r.created, [(one.recipient, ids.index(one.id), one.state) for one in r.rows])
        for r in receipts
    ]
    return told, [comparable(row, ids, ring) for row in found]


def comparable(row: Any, ids: list[Any], ring: KeyRing) -> dict[str, Any]:
    values = {name: value for name, value in row._mapping.items() if name not in DRAWN}
    binding = Binding(row.id, row.idempotency_key, row.recipient, row.template_key)
    content = "" if row.payload is None else ring.open(row.payload, binding).decode()
    for place, drawn in enumerate(ids):
        content = content.replace(str(drawn), f"id {place}")
    return values | {
        "content": content,
        "message": str(row.message_id).replace(str(row.id), "own id") if row.part == 0 else "",
        "due": "created" if row.due_at == row.created_at else row.due_at,
        "first due": row.first_due_at == row.due_at,
        "finished": row.finished_at and row.finished_at == row.created_at,
    }


def test_many_are_what_each_would_be_by_itself(engine: sa.Engine, ring: KeyRing) -> None:
    receipts, stored = outcome(engine, ring, together)
    assert (receipts, stored) == outcome(engine, ring, one_by_one)
    assert [created for _, created, _ in receipts].count(False) == 2
    assert len(stored) == 15
    assert {row["state"] for row in stored} == {"pending", "cancelled"}


BAD = [
    (mail("nobody"), {}, "to"),
    (mail(["a@example.com", "x@"]), {}, "to[1]"),
    (mail(subject="a\nb"), {}, "subject"),
    (mail(headers={"From": "x"}), {}, "headers[From]"),
    (mail(), {"priority": 3}, "priority"),
    (mail(), {"not_before": datetime(2027, 1, 1)}, "not_before"),  # noqa: DTZ001
    (mail(attachments=[Attachment("a/b", b"")]), {}, "attachments[0].name"),
    (mail(text="x" * 5000), {}, "message"),
    (TemplatedMessage("a b", {}, "a@example.com"), {}, "template_key"),
]


@pytest.mark.parametrize(("message", "options", "field"), BAD)
def test_a_refusal_names_the_place_and_says_what_enqueue_says(
    sqlite_engine: sa.Engine, ring: KeyRing, message: Any, options: Any, field: str
) -> None:
    outbox = Outbox(keys=ring, sender="a@shop.example", max_message=4000)
    good = Entry(mail(), "good")
    with sqlite_engine.begin() as db:
        with pytest.raises(MessageRefused) as alone:
            outbox.enqueue(db, message, idempotency_key="bad", **options)
        with pytest.raises(MessageRefused) as many:
            outbox.enqueue_many(db, [good, good, Entry(message, "bad", **options), good])
    assert alone.value.field == field
    assert (many.value.field, many.value.reason) == (f"entries[2].{field}", alone.value.reason)
    assert rows(sqlite_engine) == []


def test_a_conflict_names_the_place(engine: sa.Engine, outbox: Outbox) -> None:
    good, other = Entry(mail(), "good"), mail("other@example.com")
    with engine.begin() as db:
        outbox.enqueue(db, mail(), idempotency_key="known")
        for entries in ([good, Entry(other, "known")], [good, Entry(other, "good")]):
            with pytest.raises(IdempotencyConflict, match=r"^entries\[1\]\.idempotency_key: ") as conflict:
                outbox.enqueue_many(db, entries)
            assert "other@" not in str(conflict.value)
    assert [row.idempotency_key for row in rows(engine)] == ["known"]


def test_what_is_no_entry_is_named_by_its_place(sqlite_engine: sa.Engine, outbox: Outbox) -> None:
    with sqlite_engine.begin() as db, pytest.raises(OutboxError, match=r"^entries\[1\]: "):
        outbox.enqueue_many(db, [Entry(mail(), "good"), mail()])  # type: ignore[list-item]
    assert rows(sqlite_engine) == []


def inserted(engine: sa.Engine, outbox: Outbox, entries: list[Entry]) -> list[str]:
    statements: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda c, cursor, text, *rest: statements.append(text))
    with engine.begin() as db:
        outbox.enqueue_many(db, entries)
    return [text for text in statements if text.startswith("INSERT")]


def test_one_statement_adds_500_rows_and_its_text_is_always_the_same(
    engine: sa.Engine, outbox: Outbox
) -> None:
    many = [Entry(mail(), f"k{number}") for number in range(1001)]
    [one] = inserted(engine, outbox, many[:500])
    texts = inserted(engine, outbox, many[500:])
    assert texts == [one, one]
    assert len(one) < 4096  # longer ones the driver converts anew each time
    assert len(rows(engine)) == 1001


def test_large_messages_go_in_statements_of_their_own(
    engine: sa.Engine, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "OCTETS", 5000)
    sizes = [100, 3000, 3000, 9000, 100, 100]
    many = [Entry(mail(text="x" * size), f"k{place}") for place, size in enumerate(sizes)]
    assert len(inserted(engine, outbox, many)) == 4
    assert [row.payload_size // 1000 for row in rows(engine)] == [0, 3, 3, 9, 0, 0]
