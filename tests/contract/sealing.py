"""What is sealed and what is not, and that ring and database belong together."""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin import Attachment, Message, PayloadUnreadable, assemble
from outbox_admin.core.health import Level
from outbox_admin.crypto.keyring import Binding, KeyRing
from outbox_admin.db.reads.health import health
from outbox_admin.db.schema import email_outbox, metadata
from outbox_admin.db.store import users
from outbox_admin.demo.relay import Catcher
from outbox_admin.web.passwords import hash_password
from tests.contract.bench import JANE, Bench
from tests.contract.promises import proves
from tests.support import readme
from tests.support.postgres import PostgresServer
from tests.support.relay import Relay

CANARY = "canary-7f3a9c51"


@proves("4a")
def test_the_readme_lists_every_column_of_every_table_once() -> None:
    listed: dict[str, list[str]] = {}
    for cells in readme.rows("columns")[2:]:
        names = [name.strip("` ") for cell in cells[1:] for name in cell.split(",") if name.strip()]
        listed[cells[0].strip("`")] = sorted(names)
    assert listed == {table.name: sorted(table.columns.keys()) for table in metadata.sorted_tables}


@proves("4a")
def test_what_is_listed_as_sealed_is_what_the_package_seals(bench: Bench) -> None:
    sealed = {(cells[0].strip("`"), cells[1]) for cells in readme.rows("columns")[2:] if cells[1]}
    assert sealed == {("email_outbox", "`payload`, `detail`"), ("email_attempt", "`detail`")}
    row = bench.row(bench.add(message=Message(JANE, CANARY, CANARY)))
    assert row.payload.startswith(b"OBXE")


@proves("payload purpose")
def test_a_payload_opens_for_its_purpose_and_row_alone(bench: Bench) -> None:
    row = bench.row(bench.add(message=Message(JANE, "Hello", CANARY)))
    binding = Binding(row.id, row.idempotency_key, row.recipient, row.template_key)
    assert CANARY.encode() in bench.ring.open(row.payload, binding, purpose="outbox-v1")
    with pytest.raises(PayloadUnreadable):
        bench.ring.open(row.payload, binding, purpose="outbox-v2")
    with pytest.raises(PayloadUnreadable):
        bench.ring.open(row.payload, replace(binding, recipient="eve@customer.example"))


@pytest.mark.parametrize("rules", ["careful", "plain"])
def test_a_damaged_payload_is_rejected_and_cleared_and_the_next_one_is_sent(
    benches: Callable[..., Bench], relay: Catcher, rules: str
) -> None:
    bench = benches(relay=relay, rules=rules)
    proof = bench.add()
    bench.drain()
    damaged, sound = bench.add("damaged@customer.example"), bench.add()
    envelope = bench.row(damaged).payload
    with bench.engine.begin() as db:
        broken = envelope[:-1] + bytes([envelope[-1] ^ 1])
        db.execute(sa.update(email_outbox).where(email_outbox.c.id == damaged).values(payload=broken))
    bench.drain()
    row = bench.row(damaged)
    assert (row.state, row.cause_kind, row.payload, row.attempts) == (
        "rejected",
        "payload_unreadable",
        None,
        1,
    )
    assert [bench.row(row_id).state for row_id in (proof, sound)] == ["sent", "sent"]
    assert {name for message in relay.messages for name in message.recipients} == {JANE}


@proves("4b")
def test_no_content_is_found_in_database_dump_logs_or_pages(
    bench: Bench, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    caplog.set_level(logging.DEBUG)
    refusal = f"554 5.6.0 no {CANARY} for {JANE}"
    with Relay({"DOT": [f"451 {CANARY}", refusal]}) as relay:
        bench.relay_port = relay.port
        waiting = bench.add(message=content(), not_before=bench.clock.now())
        bench.drain()
        bench.add(key="other", message=content())
        bench.clock.advance(seconds=1)
        bench.drain()
    bench.add(key="still-sealed", message=content())
    assert CANARY in bench.ring.open_detail(bench.tries(waiting)[0].detail, row_id=waiting, attempt=1)
    needles = [CANARY.encode(), CANARY.encode().hex().encode()]
    where = {"dump": dump(bench, request), "logs": caplog.text.encode(), "pages": pages(bench)}
    if bench.engine.dialect.name == "sqlite":
        where["file"] = b"".join(file.read_bytes() for file in bench.folder.glob("outbox.db*"))
    assert JANE.encode() in where["dump"]
    assert {place for place, text in where.items() for needle in needles if needle in text} == set()


def content() -> Message:
    return Message(
        JANE,
        CANARY,
        f"https://shop.example/reset/{CANARY}",
        f"<p>{CANARY}</p>",
        headers={"X-Token": CANARY},
        attachments=[Attachment(f"{CANARY}.txt", CANARY.encode(), "text/plain")],
    )


def dump(bench: Bench, request: pytest.FixtureRequest) -> bytes:
    """Every value of every table; on PostgreSQL pg_dump's own words where it is installed."""
    found = b""
    with bench.engine.connect() as db:
        for table in metadata.sorted_tables:
            found += repr(db.execute(sa.select(table)).all()).encode()
    if bench.engine.dialect.name == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        program = server.binaries / "pg_dump"
        if program.exists():
            url = bench.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
            found += subprocess.run([program, url], capture_output=True, check=True).stdout
    return found


def pages(bench: Bench) -> bytes:
    """Every page about these messages, as the admin sees it."""
    password = "correct horse battery"
    with bench.engine.begin() as db:
        users.add(
            db, name="grace", role="admin", password_hash=hash_password(password), now=bench.clock.now()
        )
    app = assemble.console(bench.settings())
    client = app.test_client()
    sign_in(client, "grace", password)
    paths = ["/", "/messages", "/dead-letters", *(f"/messages/{row.id}" for row in bench.rows())]
    answers = [client.get(path) for path in paths]
    assert {answer.status_code for answer in answers} == {200}
    with app.app_context():
        app.extensions["sqlalchemy"].engine.dispose()
    return b"".join(answer.data for answer in answers)


def sign_in(client: Any, name: str, password: str) -> None:
    form = client.get("/login").get_data(as_text=True)
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form))
    answer = client.post("/login", data=hidden | {"name": name, "password": password})
    assert answer.status_code == 303, answer.get_data(as_text=True)


@proves("5a")
def test_a_restored_database_without_its_ring_holds_and_with_it_sends(
    bench: Bench, relay: Catcher, tmp_path: Path
) -> None:
    row_id, kid = bench.add(), bench.ring.newest_id
    backup = bench.key_ring.read_bytes()
    bench.key_ring.unlink()
    KeyRing.generate().write(bench.key_ring)
    bench.drain()
    with bench.engine.connect() as db:
        found = health(db, now=bench.clock.now())
    assert (bench.row(row_id).state, found.level, relay.messages) == ("pending", Level.CRITICAL, [])
    assert any(kid in finding.sentence for finding in found.findings)
    bench.key_ring.write_bytes(backup)
    bench.clock.advance(minutes=1)
    bench.drain()
    assert (bench.row(row_id).state, len(relay.messages)) == ("sent", 1)
