"""``settle``: the operator's answer about messages in doubt, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin import Message
from outbox_admin.db.schema import audit_entry, email_outbox
from outbox_admin.db.store import suppressions
from outbox_admin.ids import new_id
from outbox_admin.producer import Outbox
from tests.cli.conftest import Shell
from tests.db.rows import NOW

row = email_outbox.c


def doubt(
    engine: sa.Engine, outbox: Outbox, key: str = "hello:1", *to: str, state: str = "uncertain"
) -> None:
    """A message whose hand-over nobody knows the end of."""
    message = Message(to or ("jane@customer.example",), "Hello", "Hello Jane.")
    values = {"state": state, "finished_at": NOW, "handover_at": NOW, "maybe_delivered": True}
    with engine.begin() as db:
        outbox.enqueue(db, message, idempotency_key=key)
        db.execute(sa.update(email_outbox).where(row.idempotency_key == key).values(values))


def rows(engine: sa.Engine) -> list[Any]:
    with engine.connect() as db:
        return list(db.execute(sa.select(email_outbox).order_by(row.part)))


def audited(engine: sa.Engine) -> list[tuple[str, str]]:
    entry = audit_entry.c
    with engine.connect() as db:
        return [(one.action, one.result) for one in db.execute(sa.select(entry).order_by(entry.id))]


@pytest.mark.parametrize(
    ("option", "word", "state", "keeps"),
    [
        ("--resend", "resend", "pending", True),
        ("--arrived", "arrived", "sent", False),
        ("--give-up", "gave_up", "cancelled", False),
    ],
)
def test_each_answer_settles_what_is_in_doubt_and_is_audited(
    shell: Shell, engine: sa.Engine, outbox: Outbox, option: str, word: str, state: str, keeps: bool
) -> None:
    doubt(engine, outbox)
    [told] = shell.json("settle", "hello:1", option)["messages"]
    [stored] = rows(engine)
    assert (told["id"], told["result"]) == (str(stored.id), word)
    assert (stored.state, stored.has_payload, stored.maybe_delivered) == (state, keeps, True)
    assert audited(engine) == [("settle", word)]
    again = shell("settle", "hello:1", option, code=1)
    assert f"hello:1 is not in doubt, it is {state}" in again.output
    assert rows(engine) == [stored]


def test_it_arrived_is_said_in_words_and_not_asked(shell: Shell, engine: sa.Engine, outbox: Outbox) -> None:
    doubt(engine, outbox)
    [stored] = rows(engine)
    assert f"then `outbox-admin settle {stored.id}`" in shell("show", "hello:1").stdout
    assert "is settled: it arrived" in shell("settle", str(stored.id), "--arrived").stdout
    assert rows(engine)[0].sent_at == NOW


def test_of_a_key_the_rows_in_doubt_are_settled_and_no_other(
    shell: Shell, engine: sa.Engine, outbox: Outbox
) -> None:
    doubt(engine, outbox, "hello:1", "jane@customer.example", "joe@customer.example")
    with engine.begin() as db:
        done = {"state": "sent", "sent_at": NOW, "payload": None, "key_id": None}
        db.execute(sa.update(email_outbox).where(row.part == 1).values(done))
    before = rows(engine)
    assert len(shell.json("settle", "hello:1", "--give-up")["messages"]) == 1
    assert [one.state for one in rows(engine)] == ["cancelled", "sent"]
    assert rows(engine)[1] == before[1]


@pytest.mark.parametrize("options", [(), ("--resend", "--arrived"), ("--arrived", "--give-up")])
def test_one_answer_must_be_given(
    shell: Shell, engine: sa.Engine, outbox: Outbox, options: tuple[str, ...]
) -> None:
    doubt(engine, outbox)
    before = rows(engine)
    assert "one of --resend, --arrived and --give-up" in shell("settle", "hello:1", *options, code=2).output
    assert (rows(engine), audited(engine)) == (before, [])


def test_what_cannot_be_sent_again_stays_in_doubt_and_says_why(
    shell: Shell, engine: sa.Engine, outbox: Outbox
) -> None:
    doubt(engine, outbox)
    before = rows(engine)
    with engine.begin() as db:
        suppressions.add(db, recipient_key="jane@customer.example", reason="asked", who="cli:ann", now=NOW)
    assert "recipient on the suppression list" in shell("settle", "hello:1", "--resend", code=1).output
    assert (rows(engine), audited(engine)) == (before, [("settle", "suppressed")])


def test_a_message_that_does_not_exist_is_refused(shell: Shell) -> None:
    assert "There is no message" in shell("settle", str(new_id()), "--arrived", code=1).output
