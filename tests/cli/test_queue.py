"""``enqueue``, ``list``, ``show``, ``explain``, ``retry``, ``cancel``, ``purge`` and ``status``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.db.schema import audit_entry, email_outbox
from outbox_admin.demo.relay import Catcher, Verdict
from tests.cli.conftest import Shell

JANE = "jane@customer.example"
EML = (
    b"From: shop@shop.example\r\nTo: jane@customer.example\r\nSubject: Notice\r\n"
    b"Date: Tue, 01 Dec 2026 08:00:00 +0000\r\nMessage-ID: <n1@shop.example>\r\n\r\nHello.\r\n"
)


@pytest.fixture
def relay(shell: Shell) -> Iterator[Catcher]:
    with Catcher() as running:
        shell.environ |= {"OUTBOX_SMTP_URL": f"smtp://127.0.0.1:{running.port}", "OUTBOX_SMTP_TLS": "none"}
        yield running


def enqueue(shell: Shell, key: str = "hello:1", *more: str, to: str = JANE) -> Any:
    command = ("enqueue", "--to", to, "--subject", "Hello", "--text", "-", "--key", key, *more, "--json")
    import json

    return json.loads(shell(*command, given="Hello.\n").stdout)


def drain(shell: Shell) -> Any:
    return shell.json("worker", "--drain", "--lanes", "1", code=None)


def test_enqueue_puts_one_message_into_the_outbox_and_the_worker_sends_it(
    shell: Shell, relay: Catcher
) -> None:
    receipt = enqueue(shell, "hello:1", "--template-key", "hello", "--priority", "0")
    assert (receipt["created"], receipt["rows"][0]["state"]) == (True, "pending")
    assert drain(shell)["accepted"] == 1
    (message,) = relay.messages
    assert message.recipients == (JANE,)
    assert b"Subject: Hello" in message.content


def test_enqueue_takes_what_a_producer_may_say(shell: Shell, engine: sa.Engine) -> None:
    options = ("--not-before", "2h", "--expires", "3h", "--supersede-key", "digest", "--on-unknown", "hold")
    enqueue(shell, "hello:1", *options)
    with engine.connect() as db:
        row = db.execute(sa.select(email_outbox)).one()
    assert (row.due_at, row.supersede_key, row.on_unknown) == (row.not_before, "digest", "hold")
    assert (row.expires_at - row.not_before).total_seconds() == 3600


def test_enqueue_refuses_what_could_never_be_sent(shell: Shell, count: Any) -> None:
    said = shell(
        *("enqueue", "--to", JANE, "--subject", "Hello", "--text", "-", "--key", "hello:1"),
        *("--not-before", "2h", "--expires", "1h"),
        given="Hello.",
        code=1,
    ).output
    assert "not_before is not before expires_at" in said.replace(":", "")
    assert count("email_outbox") == 0


def test_enqueue_of_the_same_key_adds_nothing(shell: Shell) -> None:
    first, again = enqueue(shell), enqueue(shell)
    assert (again["created"], again["id"]) == (False, first["id"])
    assert (
        "nothing was added"
        in shell(
            "enqueue", "--to", JANE, "--subject", "Hello", "--text", "-", "--key", "hello:1", given="x"
        ).stdout
    )


def test_enqueue_takes_a_mail_file(shell: Shell, relay: Catcher, tmp_path: Path) -> None:
    (tmp_path / "notice.eml").write_bytes(EML)
    shell("enqueue", "--eml", str(tmp_path / "notice.eml"), "--to", JANE, "--key", "notice:1")
    drain(shell)
    assert relay.messages[0].content == EML


def test_enqueue_takes_files_along(shell: Shell, relay: Catcher, tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("tea;24\n")
    (tmp_path / "body.html").write_text("<p>Hello</p>")
    enqueue(shell, "k", "--attach", str(tmp_path / "prices.csv"), "--html", f"@{tmp_path / 'body.html'}")
    drain(shell)
    assert b"prices.csv" in relay.messages[0].content
    assert b"text/html" in relay.messages[0].content


def test_enqueue_takes_text_as_it_is_given(shell: Shell, relay: Catcher) -> None:
    shell("enqueue", "--to", JANE, "--subject", "Hello", "--text", "Hello Jane.", "--key", "hello:2")
    drain(shell)
    assert b"Hello Jane." in relay.messages[0].content


def test_enqueue_says_which_file_it_cannot_read(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"M\xe4rz")
    whole = ("enqueue", "--to", JANE, "--subject", "Hello", "--key", "k", "--text")
    assert "not UTF-8" in shell(*whole, f"@{tmp_path / 'latin'}", code=2).stderr
    assert "none.txt" in shell(*whole, "@none.txt", code=2).stderr
    assert "No messages" in shell("list").stdout


def test_enqueue_refuses_in_a_sentence(shell: Shell) -> None:
    result = shell(
        "enqueue", "--to", "not an address", "--subject", "s", "--text", "-", "--key", "k", given="x", code=1
    )
    assert result.stderr.startswith("outbox-admin: to")
    assert "Give --to" in shell("enqueue", "--key", "k", code=2).stderr


def test_list_masks_addresses_and_filters(shell: Shell) -> None:
    enqueue(shell, "a:1", "--template-key", "alpha")
    enqueue(shell, "b:1", "--template-key", "beta", to="john@customer.example")
    text = shell("list").stdout
    assert "j…@customer.example" in text
    assert JANE not in text
    assert JANE in shell("list", "--reveal").stdout
    assert [row["idempotency_key"] for row in shell.json("list", "--template", "beta")["messages"]] == ["b:1"]
    assert [row["idempotency_key"] for row in shell.json("list", "--recipient", JANE)["messages"]] == ["a:1"]
    assert shell.json("list", "--state", "failed")["messages"] == []
    assert "No messages." in shell("list", "--text", "zeta").stdout


def test_list_goes_on_where_it_ended(shell: Shell) -> None:
    for number in range(3):
        enqueue(shell, f"k:{number}")
    page = shell.json("list", "--limit", "2")
    rest = shell.json("list", "--limit", "2", "--before", page["messages"][-1]["id"])
    keys = [row["idempotency_key"] for row in page["messages"] + rest["messages"]]
    assert (keys, page["more"], rest["more"]) == (["k:2", "k:1", "k:0"], True, False)


def test_show_tells_one_message_and_its_tries(shell: Shell, relay: Catcher) -> None:
    relay.decide = lambda recipient: Verdict.DEFER
    receipt = enqueue(shell)
    drain(shell)
    text = shell("show", "hello:1").stdout
    assert "1 of 8, 1 try" in text
    assert "451" in text
    (found,) = shell.json("show", receipt["id"])["messages"]
    assert found["tries_made"][0]["outcome"] == "deferred"
    assert "no message nothing;" in shell("show", "nothing", code=1).stderr


def test_show_cannot_be_made_to_steer_the_terminal(shell: Shell, engine: sa.Engine) -> None:
    enqueue(shell)
    with engine.begin() as db:
        db.execute(sa.update(email_outbox).values(template_key="\x1b[2Jtemplate"))
    assert "\x1b" not in shell("show", "hello:1").stdout


def test_explain_opens_what_the_relay_said_and_is_audited(
    shell: Shell, relay: Catcher, engine: sa.Engine
) -> None:
    relay.decide = lambda recipient: Verdict.REFUSE
    receipt = enqueue(shell)
    drain(shell)
    assert "Mailbox is unknown" in shell("explain", receipt["id"]).stdout
    assert "Mailbox is unknown" not in shell("show", receipt["id"]).stdout
    with engine.connect() as db:
        (entry,) = db.execute(sa.select(audit_entry)).all()
    assert (entry.action, entry.target, entry.actor[:4]) == ("explained", receipt["id"], "cli:")


def test_explain_without_the_right_ring_says_so(shell: Shell, relay: Catcher, tmp_path: Path) -> None:
    relay.decide = lambda recipient: Verdict.REFUSE
    enqueue(shell)
    drain(shell)
    (tmp_path / "ring.json").unlink()
    KeyRing.generate().write(tmp_path / "ring.json")
    assert "does not open it: unknown_key" in shell("explain", "hello:1").stdout


def fail(shell: Shell, relay: Catcher, *keys: str) -> None:
    """Each message fails at its first attempt."""
    relay.decide = lambda recipient: Verdict.DEFER
    shell.environ["OUTBOX_MAX_ATTEMPTS"] = "1"
    for key in keys:
        enqueue(shell, key)
    drain(shell)
    relay.decide = lambda recipient: Verdict.ACCEPT


def test_retry_moves_a_failed_message_once(shell: Shell, relay: Catcher, engine: sa.Engine) -> None:
    fail(shell, relay, "a")
    assert "waits to be sent again" in shell("retry", "a").stdout
    assert "waits already" in shell("retry", "a", code=1).stdout
    assert drain(shell)["accepted"] == 1
    assert shell.json("retry", "a", code=1)["messages"][0]["result"] == "already_sent"
    with engine.connect() as db:
        noted = db.execute(sa.select(audit_entry.c.result).order_by(audit_entry.c.id)).scalars().all()
    assert noted == ["done", "already_pending", "already_sent"]  # as the console's timeline reads them


def test_retry_of_a_group_touches_what_matches(shell: Shell, relay: Catcher) -> None:
    fail(shell, relay, "a", "b", "c")
    enqueue(shell, "d", "--template-key", "other")
    nothing = shell("retry", "--template", "other", "--yes", code=1).stderr
    assert nothing.startswith("outbox-admin: Nothing to retry")
    assert "no cause" in shell("retry", "--like", "d", code=1).stderr
    shell("retry", "--like", "a", given="n\n", code=1)
    assert shell.json("retry", "--like", "a", "--yes") == {"matching": 3, "moved": 3, "left": 0}
    assert drain(shell)["accepted"] == 4
    assert "Give messages" in shell("retry", code=2).stderr


def test_cancel_withdraws_once(shell: Shell, count: Any) -> None:
    enqueue(shell)
    assert "cancelled" in shell("cancel", "hello:1").stdout
    assert "not waiting" in shell("cancel", "hello:1", code=1).stdout
    assert shell.json("list")["messages"][0]["state"] == "cancelled"
    assert count("audit_entry") == 2


def test_purge_applies_the_retention_and_spares_the_living(shell: Shell, relay: Catcher) -> None:
    enqueue(shell, "old")
    drain(shell)
    enqueue(shell, "new")
    assert shell.json("purge") == {"payloads": 0, "done": 0, "dead": 0}
    shell.environ["OUTBOX_KEEP_DONE"] = "0"
    assert "1 rows removed" in shell("purge").stdout
    assert [row["idempotency_key"] for row in shell.json("list")["messages"]] == ["new"]


def test_status_of_an_idle_queue_without_a_worker_is_a_warning(shell: Shell) -> None:
    found = shell.json("status", code=1)
    assert (found["level"], found["states"]["pending"], found["workers"]["active"]) == ("warning", 0, 0)
    assert "outbox-admin worker" in shell("status", code=1).stdout


def test_status_is_critical_where_due_messages_meet_no_worker(shell: Shell) -> None:
    enqueue(shell)
    assert shell.json("status", code=2)["states"]["pending"] == 1


def test_list_marks_what_may_have_been_sent_twice(shell: Shell, engine: sa.Engine, relay: Catcher) -> None:
    enqueue(shell, "twice:1")
    enqueue(shell, "once:1")
    drain(shell)
    with engine.begin() as db:
        doubted = sa.update(email_outbox).where(email_outbox.c.idempotency_key == "twice:1")
        db.execute(doubted.values(maybe_delivered=True, tries=2))
    lines = shell("list").stdout.splitlines()
    assert ["possible double" in line for line in lines] == [False, False, True]
