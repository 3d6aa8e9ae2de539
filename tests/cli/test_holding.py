"""``hold``, ``holds``, ``unhold`` in a terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from outbox_admin import Message
from outbox_admin.db.schema import audit_entry, email_outbox, outbox_hold
from outbox_admin.db.store import holds
from outbox_admin.producer import Entry, Outbox
from tests.cli.conftest import Shell


def enqueue(engine: sa.Engine, outbox: Outbox, *recipients: str, template: str = "invoice") -> list[UUID]:
    with engine.begin() as db:
        entries = [
            Entry(Message(to, "Hello", "Hello\n"), f"{template}:{place}", template_key=template)
            for place, to in enumerate(recipients)
        ]
        return [receipt.id for receipt in outbox.enqueue_many(db, entries)]


def audit(engine: sa.Engine) -> list[tuple[str, str, str]]:
    with engine.connect() as db:
        read = sa.select(audit_entry.c.action, audit_entry.c.target, audit_entry.c.actor)
        return [tuple(entry) for entry in db.execute(read.order_by(audit_entry.c.id))]


def stamp_all(engine: sa.Engine, ids: list[UUID]) -> None:
    """As a claim does."""
    with engine.begin() as db:
        holds.stamp(db, ids, now=datetime.now(UTC))


def test_a_hold_is_placed_listed_and_lifted_and_each_step_is_audited(
    shell: Shell, engine: sa.Engine, outbox: Outbox
) -> None:
    ids = enqueue(engine, outbox, "jane@example.com", "joe@example.org", "ann@Example.com")
    placed = shell.json("hold", "domain", "EXAMPLE.com", "--reason", "their server is down", "--until", "2h")
    assert (placed["hold"]["scope"], placed["hold"]["value"]) == ("domain", "example.com")
    assert placed["waiting"] == 2
    until = datetime.fromisoformat(placed["hold"]["until"])
    assert timedelta(minutes=119) < until - datetime.now(UTC) < timedelta(minutes=121)
    stamp_all(engine, ids)

    (listed,) = shell.json("holds")["holds"]
    assert (listed["id"], listed["held"], listed["reason"]) == (
        placed["hold"]["id"],
        2,
        "their server is down",
    )
    assert "their server is down" in shell("holds").stdout

    lifted = shell.json("unhold", placed["hold"]["id"])
    assert lifted["returned"] == 2
    assert shell.json("holds") == {"holds": []}
    assert "Nothing is held" in shell("holds").stdout
    what = f"{placed['hold']['id']} domain example.com"
    assert [entry[:2] for entry in audit(engine)] == [("hold", what), ("unhold", what)]
    assert all(actor.startswith("cli:") for _, _, actor in audit(engine))


def test_lifting_returns_1200_rows_at_once_and_says_how_many(
    shell: Shell, engine: sa.Engine, outbox: Outbox
) -> None:
    ids = enqueue(engine, outbox, *["jane@example.com"] * 1200)
    placed = shell("hold", "everything", "--reason", "relay moves")
    assert "1,200 messages wait under it" in placed.stdout
    stamp_all(engine, ids)
    (listed,) = shell.json("holds")["holds"]
    assert "1,200 messages left it" in shell("unhold", listed["id"]).stdout
    with engine.connect() as db:
        stamped = sa.select(sa.func.count()).select_from(email_outbox).where(email_outbox.c.held.is_not(None))
        assert db.execute(stamped).scalar_one() == 0


def test_the_same_command_again_moves_the_end_of_the_hold(shell: Shell, count: Any) -> None:
    first = shell.json("hold", "template", "invoice", "--reason", "wrong total", "--until", "1h")
    second = shell.json("hold", "template", "invoice", "--reason", "wrong total")
    assert second["hold"]["id"] == first["hold"]["id"]
    assert second["hold"]["until"] is None
    assert count("outbox_hold") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["domain", "jane@example.com", "--reason", "x"], 1, "domain: give the domain alone"),
        (["domain", "--reason", "x"], 1, "domain:"),
        (["template", "--reason", "x"], 1, "template: has 1 to 200 characters"),
        (["everything", "invoice", "--reason", "x"], 1, "everything: takes no name"),
        (["everything", "--reason", " "], 1, "reason:"),
        (["everything"], 2, "--reason"),
        (["nothing", "--reason", "x"], 2, "everything"),
        (["everything", "--reason", "x", "--until", "2020-01-01T00:00Z"], 2, "has passed"),
        (["everything", "--reason", "x", "--until", "2099-01-01"], 2, "time zone"),
        (["everything", "--reason", "x", "--until", "soon"], 2, "neither"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_held(
    shell: Shell, engine: sa.Engine, arguments: list[str], code: int, word: str
) -> None:
    result = shell("hold", *arguments, code=code)
    assert word in result.output
    with engine.connect() as db:
        assert db.execute(sa.select(outbox_hold)).all() == []
    assert audit(engine) == []


def test_lifting_what_is_not_there_is_refused(shell: Shell, engine: sa.Engine) -> None:
    assert "There is no hold" in shell("unhold", str(uuid4()), code=1).stderr
    assert shell("unhold", "7", code=2).exit_code == 2
    assert audit(engine) == []
