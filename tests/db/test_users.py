"""Accounts: names without case, and no session outlives a change of what it stood on."""

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin.db.schema import audit_entry, console_session, console_user
from outbox_admin.db.store import audit, users
from tests.db.rows import NOW, later


def account(db: sa.Connection) -> Any:
    return db.execute(sa.select(console_user)).one()


def test_a_name_is_taken_whatever_its_case(engine: sa.Engine) -> None:
    with engine.begin() as db:
        assert users.add(db, name="Grace", role="admin", password_hash="h1", now=NOW) is True
        assert users.add(db, name="GRACE", role="viewer", password_hash="h2", now=NOW) is False
        stored = account(db)
    assert (stored.name, stored.role, stored.password_hash) == ("grace", "admin", "h1")


@pytest.mark.parametrize(
    "change",
    [
        lambda db, name: users.set_password(db, name=name, password_hash="h2"),
        lambda db, name: users.disable(db, name=name, now=NOW),
    ],
)
def test_a_change_ends_the_accounts_sessions(
    engine: sa.Engine, change: Callable[[sa.Connection, str], bool]
) -> None:
    with engine.begin() as db:
        users.add(db, name="grace", role="admin", password_hash="h1", now=NOW)
        times = {"created_at": NOW, "seen_at": NOW, "expires_at": later(hours=1)}
        db.execute(sa.insert(console_session).values(token_hash="t", user_id=account(db).id, **times))
        assert change(db, "nobody") is False
        assert change(db, "Grace") is True
        assert db.execute(sa.select(console_session)).all() == []


def test_an_account_is_disabled_once(engine: sa.Engine) -> None:
    with engine.begin() as db:
        users.add(db, name="grace", role="admin", password_hash="h1", now=NOW)
        users.disable(db, name="grace", now=NOW)
        users.disable(db, name="grace", now=later(days=1))
        assert account(db).disabled_at == NOW


def test_the_audit_log_tells_who_did_what(engine: sa.Engine) -> None:
    with engine.begin() as db:
        entry_id = audit.add(
            db, at=NOW, actor="grace", action="retry", target="t", count=3, address="127.0.0.1"
        )
        [entry] = db.execute(sa.select(audit_entry))
    assert (entry.id, entry.at, entry.actor, entry.action) == (entry_id, NOW, "grace", "retry")
    assert (entry.target, entry.count, entry.result, entry.address) == ("t", 3, "done", "127.0.0.1")
