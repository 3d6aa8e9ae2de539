"""``erase`` in a terminal, also while a relay has one of the person's messages in its hands."""

from __future__ import annotations

import json
import threading
from typing import Any

import sqlalchemy as sa

from outbox_admin import KeyRing, Message
from outbox_admin.db.schema import audit_entry, email_outbox
from outbox_admin.demo.relay import Catcher, Verdict
from outbox_admin.producer import Outbox
from tests.cli.conftest import Shell
from tests.delivery.room import Room, drain, route_to
from tests.support.clock import FakeClock
from tests.support.waiting import until

JANE, JOE = "jane@example.com", "joe@example.org"


def enqueue(engine: sa.Engine, outbox: Outbox, *recipients: str, key: str = "k") -> None:
    with engine.begin() as db:
        outbox.enqueue(db, Message(list(recipients), "Hello", "Hello\n"), idempotency_key=key)


def rows(engine: sa.Engine) -> list[Any]:
    with engine.connect() as db:
        return list(db.execute(sa.select(email_outbox).order_by(email_outbox.c.part)))


def test_erasing_asks_says_what_stays_and_is_audited_without_the_address(
    shell: Shell, engine: sa.Engine, outbox: Outbox
) -> None:
    enqueue(engine, outbox, "Jane@Example.com", JOE)
    refused = shell("erase", JANE, given="n\n", code=1)
    assert "The address is in 1 row; 1 message to it and 1 row to other recipients" in refused.output
    assert [row.state for row in rows(engine)] == ["pending", "pending"]

    told = shell("erase", JANE, given="y\n").stdout
    assert "1 row erased, 1 message and 1 row to others cancelled" in told
    assert "the keys that the application gave" in told
    first, second = rows(engine)
    assert (first.state, first.payload, second.state, second.payload) == (
        "cancelled",
        None,
        "cancelled",
        None,
    )
    assert first.recipient == first.recipient_key
    assert first.recipient.startswith("erased:")
    assert (second.recipient, first.idempotency_key) == (JOE, "k")
    with engine.connect() as db:
        told_of = (audit_entry.c.action, audit_entry.c.target, audit_entry.c.count, audit_entry.c.result)
        assert db.execute(sa.select(*told_of)).one() == ("erase", first.recipient, 1, "done")
    assert "jane" not in shell("show", str(first.id), "--reveal").stdout.lower()


def test_erasing_again_finds_nothing_and_later_mail_under_the_same_mark(
    shell: Shell, engine: sa.Engine, outbox: Outbox
) -> None:
    enqueue(engine, outbox, JANE)
    shell("suppress", "add", JANE, "--reason", "asked")
    first = shell.json("erase", JANE, "--yes")
    again = shell.json("erase", "JANE@example.com", "--yes")
    assert (first["replaced"], again["replaced"], again["left"], again["suppressed"]) == (1, 0, 0, True)
    enqueue(engine, outbox, JANE, key="later")
    shell("erase", JANE, "--yes")
    assert {row.recipient for row in rows(engine)} == {first["mark"]}
    assert "stays on the suppression list" in shell("erase", JANE, "--yes").stdout


def test_what_is_being_sent_is_waited_for(
    shell: Shell, engine: sa.Engine, ring: KeyRing, outbox: Outbox, clock: FakeClock
) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def decide(recipient: str) -> Verdict:
        arrived.set()
        assert go_on.wait(60)
        return Verdict.ACCEPT

    enqueue(engine, outbox, JANE)
    with Room(engine, clock, ring) as room, Catcher(decide=decide) as relay:
        lane = room.dispatcher(route_to(relay.port, reply_timeout=60))
        sending = threading.Thread(target=lambda: drain(lane))
        sending.start()
        assert arrived.wait(60)
        told: list[Any] = []
        erasing = threading.Thread(target=lambda: told.append(shell("erase", JANE, "--yes", "--json")))
        enqueue(engine, outbox, JANE, key="waits")
        erasing.start()
        assert until(lambda: "cancelled" in [row.state for row in rows(engine)], seconds=60)
        assert not told
        assert JANE in [row.recipient for row in rows(engine)]
        go_on.set()
        sending.join(60)
        erasing.join(60)
    assert until(lambda: bool(told))
    done = json.loads(told[0].stdout)
    (row,) = (row for row in rows(engine) if row.state == "sent")
    assert (row.recipient, row.provider_id, row.message_id) == (done["mark"], None, None)
    assert (done["withdrawn"], done["replaced"], done["left"]) == (1, 2, 0)
    assert [one.recipients for one in relay.messages] == [(JANE,)]


def test_a_wait_that_is_over_says_so_and_exits_1(shell: Shell, engine: sa.Engine, outbox: Outbox) -> None:
    enqueue(engine, outbox, JANE)
    with engine.begin() as db:
        db.execute(sa.update(email_outbox).values(state="sending"))
    result = shell("erase", JANE, "--yes", "--wait", "0", code=1)
    assert "still in 1 row after 0 s" in result.stderr
    with engine.connect() as db:
        assert db.execute(sa.select(audit_entry.c.result)).scalar_one() == "waiting"


def test_a_wrong_address_and_a_missing_key_ring_change_nothing(shell: Shell, count: Any) -> None:
    assert "address:" in shell("erase", "no address", "--yes", code=1).stderr
    shell.environ["OUTBOX_KEY_RING"] = "/nowhere/ring.json"
    shell("erase", JANE, "--yes", code=78)
    assert count("audit_entry") == 0
