"""``init``, ``db``, ``keys``, ``users`` and ``check``: from nothing to a deployment that may start."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin import Message, Outbox
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.db.schema import email_outbox, outbox_key
from outbox_admin.demo.relay import Catcher
from tests.cli.conftest import Shell

PASSWORD = "correct horse battery\n"


def test_init_makes_tables_ring_and_admin_and_names_the_next_steps(bare_shell: Shell, tmp_path: Path) -> None:
    result = bare_shell("init", "--admin", "Grace", "--password-file", "-", given=PASSWORD)
    assert "grace may sign in as admin" in result.stdout
    assert "outbox-admin worker" in result.stdout
    for file in ("ring.json", "new.db"):
        assert stat.S_IMODE((tmp_path / file).stat().st_mode) == 0o600
    assert bare_shell.json("users", "list")["users"][0]["role"] == "admin"


def test_init_again_leaves_alone_what_is_there(bare_shell: Shell, tmp_path: Path) -> None:
    bare_shell("init", "--admin", "grace", "--password-file", "-", given=PASSWORD)
    before = (tmp_path / "ring.json").read_bytes()
    result = bare_shell("init")
    assert "is there, with 1 key" in result.stdout
    assert "There is an account already" in result.stdout
    assert (tmp_path / "ring.json").read_bytes() == before


def test_init_without_a_terminal_makes_all_but_the_account(bare_shell: Shell) -> None:
    result = bare_shell("init", given="")
    assert "outbox-admin users add NAME --role admin" in result.stdout
    assert "Next:" in result.stdout
    assert bare_shell.json("users", "list")["users"] == []


@pytest.mark.parametrize("command", ["status", "list", "db check", "check", "worker --drain"])
def test_a_database_that_is_missing_is_named_and_not_made(
    bare_shell: Shell, ring: KeyRing, tmp_path: Path, command: str
) -> None:
    result = bare_shell(*command.split(), code=78)
    assert f"There is no database {tmp_path / 'new.db'};" in result.output
    assert not (tmp_path / "new.db").exists()


def test_init_never_replaces_a_lost_ring(
    shell: Shell, engine: sa.Engine, outbox: Outbox, tmp_path: Path
) -> None:
    with engine.begin() as db:
        outbox.enqueue(db, Message("jane@customer.example", "s", "t"), idempotency_key="k")
    (tmp_path / "ring.json").unlink()
    result = shell("init", "--admin", "grace", "--password-file", "-", given=PASSWORD, code=1)
    assert "restore it from the backup" in result.stderr
    assert not (tmp_path / "ring.json").exists()


def test_init_asks_for_settings_in_production(bare_shell: Shell) -> None:
    bare_shell.environ |= {"OUTBOX_ENV": "production", "OUTBOX_DATABASE_URL": ""}
    assert "OUTBOX_DATABASE_URL is not set" in bare_shell("init", code=78).stderr


def test_db_check_and_upgrade(bare_shell: Shell) -> None:
    assert "outbox-admin db upgrade" in bare_shell("db", "check", code=78).stderr
    bare_shell("db", "upgrade")
    facts = bare_shell.json("db", "check")
    assert facts["version"] == facts["expected"] is not None
    assert "already" in bare_shell("db", "upgrade").stdout


def test_db_sql_prints_the_statements(bare_shell: Shell) -> None:
    assert "CREATE TABLE email_outbox" in bare_shell("db", "sql").stdout
    assert "CREATE TABLE email_outbox" in bare_shell("db", "sql", "--dialect", "sqlite").stdout


def test_keys_generate_makes_a_ring_and_then_adds_to_it(bare_shell: Shell, tmp_path: Path) -> None:
    first = bare_shell("keys", "generate").stdout
    second = bare_shell("keys", "generate").stdout
    ring = KeyRing.load(tmp_path / "ring.json")
    assert [key.kid in text for key, text in zip(ring.keys, (first, second), strict=True)] == [True, True]
    material = json.loads((tmp_path / "ring.json").read_text())["keys"][0]["material"]
    assert material not in first + second


def test_keys_list_tells_ring_database_and_need(
    shell: Shell, engine: sa.Engine, ring: KeyRing, outbox: Outbox
) -> None:
    with engine.begin() as db:
        outbox.enqueue(db, Message("jane@customer.example", "s", "t"), idempotency_key="k")
    (key,) = shell.json("keys", "list")["keys"]
    assert (key["key"], key["in_ring"], key["messages"]) == (ring.newest_id, "enabled", 1)
    assert ring.newest_id in shell("keys", "list").stdout


def test_keys_declare_lost_asks_and_is_audited(
    shell: Shell, engine: sa.Engine, ring: KeyRing, outbox: Outbox, count: Any
) -> None:
    with engine.begin() as db:
        outbox.enqueue(db, Message("jane@customer.example", "s", "t"), idempotency_key="k")
    kid = ring.newest_id
    shell("keys", "declare-lost", kid, given="n\n", code=1)
    assert count("audit_entry") == 0
    assert "reject 1 message" in shell("keys", "declare-lost", kid, given="y\n").stdout
    with engine.connect() as db:
        assert db.execute(sa.select(outbox_key.c.state)).scalar_one() == "lost"
    assert count("audit_entry") == 1
    assert "knows no key" in shell("keys", "declare-lost", "00" * 8, "--yes", code=1).stderr


def test_users_are_added_listed_changed_and_closed(shell: Shell, count: Any) -> None:
    shell("users", "add", "Grace", "--role", "operator", "--password-file", "-", given=PASSWORD)
    result = shell("users", "add", "grace", "--password-file", "-", given=PASSWORD, code=1)
    assert "already" in result.stderr
    shell("users", "passwd", "grace", "--password-file", "-", given="another long password\n")
    shell("users", "disable", "grace")
    again = shell("users", "passwd", "Grace", "--password-file", "-", given="another long password\n")
    assert "stays closed" in again.stdout
    (user,) = shell.json("users", "list")["users"]
    assert (user["name"], user["role"], user["disabled_at"] is None) == ("grace", "operator", False)
    assert "password" not in json.dumps(user)
    assert count("audit_entry") == 4
    shell("users", "enable", "Grace")
    (again,) = shell.json("users", "list")["users"]
    assert (again["role"], again["disabled_at"], count("audit_entry")) == ("operator", None, 5)
    assert "no closed account" in shell("users", "enable", "grace", code=1).stderr
    assert (
        "no account" in shell("users", "passwd", "ada", "--password-file", "-", given=PASSWORD, code=1).stderr
    )
    assert "no open account" in shell("users", "disable", "ada", code=1).stderr


def test_a_short_password_is_not_taken(shell: Shell) -> None:
    result = shell("users", "add", "grace", "--password-file", "-", given="short\n", code=1)
    assert "at least" in result.stderr
    assert shell.json("users", "list")["users"] == []


def test_without_a_terminal_no_password_is_waited_for(shell: Shell) -> None:
    assert "--password-file" in shell("users", "add", "grace", given="", code=1).stderr


def test_check_says_that_all_is_well(shell: Shell) -> None:
    found = shell.json("check")["findings"]
    assert {finding["level"] for finding in found} == {"ok"}


def test_check_lists_everything_at_once(bare_shell: Shell) -> None:
    bare_shell.environ |= {"OUTBOX_BATCH": "none", "OUTBOX_LEASE": "none"}
    found = bare_shell.json("check", code=78)["findings"]
    assert [finding["level"] for finding in found] == ["error", "error"]


def test_check_deploy_judges_as_production(shell: Shell) -> None:
    text = shell("check", "--deploy", code=78).stdout
    for named in ("OUTBOX_SMTP_URL", "OUTBOX_CONSOLE_SECRET", "OUTBOX_PUBLIC_URL", "users add"):
        assert named in text


def test_check_deploy_asks_the_relay(shell: Shell) -> None:
    with Catcher() as relay:
        shell.environ |= {"OUTBOX_SMTP_URL": f"smtp://127.0.0.1:{relay.port}"}
        assert "Relay offers no TLS at STARTTLS" in shell("check", "--deploy", code=78).stdout
        shell.environ |= {"OUTBOX_SMTP_TLS": "none"}
        ready = f"ok       The primary relay 127.0.0.1:{relay.port} answers and is ready for mail."
        assert ready in shell("check", "--deploy", code=78).stdout
        assert "relay" not in shell("check").stdout
    assert relay.messages == []
    assert "Relay not reachable while connecting" in shell("check", "--deploy", code=78).stdout


def test_check_deploy_warns_of_a_relay_that_is_away(shell: Shell) -> None:
    shell("users", "add", "grace", "--password-file", "-", given=PASSWORD)
    with Catcher() as relay:
        gone = relay.port
    shell.environ |= {
        "OUTBOX_SMTP_URL": f"smtp://127.0.0.1:{gone}",
        "OUTBOX_CONSOLE_SECRET": "f3JmZ0wq9vB1yqk1mS7w4u8h2nC5xT6a",
        "OUTBOX_PUBLIC_URL": "https://outbox.shop.example",
    }
    found = shell.json("check", "--deploy", code=1)["findings"]
    [warning] = [finding["sentence"] for finding in found if finding["level"] != "ok"]
    assert f"127.0.0.1:{gone}: Relay not reachable" in warning


def test_check_names_a_ring_of_others_and_messages_without_a_key(
    shell: Shell, engine: sa.Engine, ring: KeyRing, tmp_path: Path
) -> None:
    other = Outbox(keys=KeyRing.generate(), sender="a@shop.example")
    with engine.begin() as db:
        db.execute(
            sa.insert(outbox_key).values(
                kid=ring.newest_id, check_value="00" * 8, created_at=sa.func.current_timestamp()
            )
        )
        other.enqueue(db, Message("jane@customer.example", "s", "t"), idempotency_key="k")
        kid = db.execute(sa.select(email_outbox.c.key_id)).scalar_one()
    text = shell("check", code=78).stdout
    assert f"Key {ring.newest_id} of the ring is not the one" in text
    assert f"1 message need {kid}" in text or f"{kid}, which this ring lacks" in text


def test_check_names_an_open_ring_file(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "ring.json").chmod(0o644)
    assert "chmod" in shell("check", code=78).stdout


def test_check_warns_before_the_ring_stops_sealing(bare_shell: Shell, tmp_path: Path) -> None:
    bare_shell("db", "upgrade")
    KeyRing.generate(clock=lambda: time.time() - 80 * 86_400).write(tmp_path / "ring.json")
    result = bare_shell("check", code=1)
    assert "Within 14 days no key may seal any more" in result.stdout
    assert "outbox-admin keys generate" in result.stdout


def test_every_command_finds_a_key_ring_that_stands_in_a_variable(shell: Shell, ring: KeyRing) -> None:
    kept = Shell(shell.environ | {"OUTBOX_KEY_RING": "env:RING", "RING": ring.to_text()})
    [key] = kept.json("keys", "list")["keys"]
    assert key["key"] == ring.newest_id
    assert "seals until" in kept("check", code=None).output
