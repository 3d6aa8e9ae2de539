"""``resume`` and ``worker --paused`` at the command line, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin import Message, Outbox
from outbox_admin.db.schema import audit_entry, email_outbox
from outbox_admin.db.store import deployment
from tests.cli.conftest import Shell

NOW = datetime.now(UTC)


def enqueue(engine: sa.Engine, outbox: Outbox, key: str, **changes: Any) -> None:
    with engine.begin() as db:
        outbox.enqueue(db, Message("jane@example.com", "s", "t"), idempotency_key=key)
        chosen = email_outbox.c.idempotency_key == key
        changes = {"created_at": NOW - timedelta(days=2), "due_at": NOW - timedelta(days=1)} | changes
        db.execute(sa.update(email_outbox).where(chosen).values(**changes))


@pytest.fixture
def copied(shell: Shell, engine: sa.Engine, outbox: Outbox) -> Shell:
    """A database that another deployment's workers knew, with mail in every situation."""
    with engine.begin() as db:
        deployment.check(db, name="elsewhere", now=NOW)
    enqueue(engine, outbox, "waits")
    enqueue(engine, outbox, "in hand", state="sending", claim_token=sa.func.cast(None, sa.Uuid), attempts=1)
    enqueue(engine, outbox, "backs off", due_at=NOW + timedelta(hours=1))
    enqueue(engine, outbox, "expired", expires_at=NOW - timedelta(hours=1))
    enqueue(engine, outbox, "of the copy", created_at=NOW - timedelta(minutes=1))
    enqueue(engine, outbox, "sent", state="sent", payload=None, key_id=None)
    return shell


def states(engine: sa.Engine) -> dict[str, str]:
    with engine.begin() as db:
        return {row.idempotency_key: row.state for row in db.execute(sa.select(email_outbox))}


def audited(engine: sa.Engine) -> list[tuple[str, str, int]]:
    with engine.begin() as db:
        found = db.execute(sa.select(audit_entry).where(audit_entry.c.action == "resume"))
        return [(row.target, row.result, row.count) for row in found]


def test_e29_a_copy_is_refused_with_the_cure_and_status_is_critical(copied: Shell, engine: sa.Engine) -> None:
    before = states(engine)
    assert "--confirm-copy" in copied("resume", code=1).stderr
    told = copied("worker", "--drain", code=1).stdout
    assert "This database is a copy, nothing is sent from it" in told
    assert "outbox-admin resume --confirm-copy" in copied("status", code=2).stdout
    assert (states(engine), audited(engine)) == (before, [])


def test_e29_confirming_lets_the_copy_send(copied: Shell, engine: sa.Engine) -> None:
    assert copied.json("resume", "--confirm-copy") == {"confirmed": True, "uncertain": 0}
    assert "no copy" in copied("resume", "--confirm-copy", code=1).stderr
    assert copied.json("worker", "--drain")["accepted"] == 2
    assert audited(engine) == [("copy", "done", 0)]


def test_e29_what_the_original_may_have_sent_since_waits_for_a_decision(
    copied: Shell, engine: sa.Engine
) -> None:
    since = f"{NOW - timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}"
    settled = copied.json("resume", "--confirm-copy", "--sent-since", since, "--yes")
    assert settled == {"confirmed": True, "uncertain": 2}
    assert states(engine) == {
        "waits": "uncertain",
        "in hand": "uncertain",
        "backs off": "pending",
        "expired": "pending",
        "of the copy": "pending",
        "sent": "sent",
    }
    with engine.begin() as db:
        rows = db.execute(sa.select(email_outbox).where(email_outbox.c.state == "uncertain")).all()
    assert {(row.maybe_delivered, row.cause_kind, row.payload is not None) for row in rows} == {
        (True, "copied", True)
    }
    assert audited(engine) == [("copy", "done", 2)]
    assert copied.json("worker", "--drain")["accepted"] == 1
    assert copied("settle", "waits", "--resend")
    assert copied.json("worker", "--drain")["accepted"] == 1


def test_setting_messages_aside_is_asked_for_and_can_be_refused(copied: Shell, engine: sa.Engine) -> None:
    before = states(engine)
    asked = copied("resume", "--confirm-copy", "--sent-since", "1h", given="n\n", code=1)
    assert "The original may have sent 2 messages" in asked.stderr
    assert (states(engine), audited(engine)) == (before, [])


@pytest.mark.parametrize("time", ["yesterday", "2026-12-01T03:00", "2999-01-01T00:00Z"])
def test_a_time_that_cannot_be_meant_changes_nothing(copied: Shell, engine: sa.Engine, time: str) -> None:
    before = states(engine)
    assert copied("resume", "--confirm-copy", "--sent-since", time, "--yes", code=None).exit_code in (1, 2)
    assert (states(engine), audited(engine)) == (before, [])


def test_nothing_is_set_aside_while_a_worker_may_be_sending(
    shell: Shell, engine: sa.Engine, outbox: Outbox, count: Callable[[str], int]
) -> None:
    enqueue(engine, outbox, "waits", due_at=NOW + timedelta(hours=1))
    shell("worker", "--drain")
    with engine.begin() as db:
        db.execute(sa.text("UPDATE outbox_worker SET state = 'active'"))
    assert "1 worker may be sending" in shell("resume", "--sent-since", "1h", "--yes", code=1).stderr
    with engine.begin() as db:
        db.execute(sa.text("UPDATE outbox_worker SET state = 'paused'"))
    assert shell.json("resume", "--sent-since", "1h", "--yes") == {"confirmed": False, "uncertain": 0}


def test_a_drain_cannot_be_paused(shell: Shell) -> None:
    assert "not both" in shell("worker", "--drain", "--paused", code=2).stderr
