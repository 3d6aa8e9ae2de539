"""Rows for the console's tests, placed with Core inserts: the pages are tested against tables, not against a worker."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.db import schema
from outbox_admin.ids import new_id
from outbox_admin.web.passwords import hash_password

PASSWORD = "correct horse battery"
PASSWORD_HASH = hash_password(PASSWORD)
KID = "0102030405060708"

_DEAD = ("failed", "rejected", "uncertain")
_DONE = ("sent", "expired", "cancelled", "superseded")
_KEPT = ("pending", "sending", "failed", "uncertain")


@dataclass(frozen=True)
class Population:
    """Places rows relative to ``now``."""

    engine: sa.Engine
    now: datetime

    def insert(self, table: sa.Table, **values: Any) -> None:
        with self.engine.begin() as db:
            db.execute(sa.insert(table).values(**values))

    def message(self, state: str = "pending", **given: Any) -> UUID:
        row = self.row(state, **given)
        self.insert(schema.email_outbox, **row)
        return row["id"]

    def messages(self, count: int, state: str = "pending", **given: Any) -> list[UUID]:
        rows = [self.row(state, **given) for _ in range(count)]
        with self.engine.begin() as db:
            db.execute(sa.insert(schema.email_outbox), rows)
        return [row["id"] for row in rows]

    def row(self, state: str = "pending", **given: Any) -> dict[str, Any]:
        row_id = given.get("id") or new_id()
        recipient = given.get("recipient", "jane@example.com")
        kept = given.pop("kept", state in _KEPT)
        ended = self.now - timedelta(minutes=2) if state in (*_DEAD, *_DONE) else None
        values: dict[str, Any] = {
            "id": row_id,
            "idempotency_key": f"verify:{row_id.hex[-12:]}",
            "template_key": "account.verify",
            "recipient": recipient,
            "recipient_key": recipient.casefold(),
            "state": state,
            "due_at": self.now - timedelta(seconds=5),
            "first_due_at": self.now - timedelta(seconds=5),
            "created_at": self.now - timedelta(minutes=10),
            "finished_at": ended,
            "sent_at": ended if state == "sent" else None,
            "payload": b"sealed" if kept else None,
            "payload_size": 2048,
            "key_id": KID if kept else None,
        }
        if state in _DEAD:
            values |= {
                "attempts": 8,
                "tries": 8,
                "cause_phase": "rcpt",
                "cause_kind": "mailbox_full",
                "cause_code": 452,
            }
        if state == "uncertain":
            values |= {
                "maybe_delivered": True,
                "cause_phase": "dot",
                "cause_kind": "network",
                "cause_code": None,
            }
        if state == "sending":
            values |= {
                "lease_until": self.now + timedelta(minutes=4),
                "claimed_by": "mail-1:4711",
                "attempts": 1,
                "tries": 1,
            }
        return values | given

    def attempt(self, message: UUID, number: int = 1, **given: Any) -> None:
        values: dict[str, Any] = {
            "id": new_id(),
            "outbox_id": message,
            "number": number,
            "counted": True,
            "started_at": self.now - timedelta(seconds=62),
            "ended_at": self.now - timedelta(seconds=60),
            "worker": "mail-1:4711",
            "route": "primary",
            "outcome": "deferred",
            "cause_phase": "rcpt",
            "cause_kind": "throttled",
            "cause_code": 450,
            "cause_enhanced": "4.2.1",
            "next_due_at": self.now - timedelta(seconds=50),
        }
        self.insert(schema.email_attempt, **values | given)

    def worker(self, **given: Any) -> None:
        values: dict[str, Any] = {
            "id": f"mail-1:4711:{new_id().hex[-6:]}",
            "host": "mail-1",
            "pid": 4711,
            "kind": "worker",
            "version": "0.1.0",
            "lanes": 4,
            "started_at": self.now - timedelta(hours=3),
            "beat_at": self.now - timedelta(seconds=4),
            "last_cycle_at": self.now - timedelta(seconds=2),
            "last_progress_at": self.now - timedelta(seconds=2),
            "key_ids": [KID],
            "accepted": 18234,
            "deferred": 212,
            "rejected": 31,
        }
        self.insert(schema.outbox_worker, **values | given)

    def minute(
        self, ago: int, outcome: str = "accepted", count: int = 1, template: str = "account.verify"
    ) -> None:
        minute = self.now.replace(second=0, microsecond=0) - timedelta(minutes=ago)
        self.insert(
            schema.outbox_minute, minute=minute, outcome=outcome, template_key=template, shard=0, count=count
        )

    def user(self, name: str, role: str, **given: Any) -> UUID:
        user_id = new_id()
        values = {
            "id": user_id,
            "name": name,
            "role": role,
            "password_hash": PASSWORD_HASH,
            "created_at": self.now,
        }
        self.insert(schema.console_user, **values | given)
        return user_id

    def state(self, message: UUID) -> str:
        return self.value(message, "state")

    def value(self, message: UUID, column: str) -> Any:
        table = schema.email_outbox
        with self.engine.connect() as db:
            return db.execute(sa.select(table.c[column]).where(table.c.id == message)).scalar_one()

    def audits(self, action: str) -> list[sa.Row[Any]]:
        entry = schema.audit_entry
        with self.engine.connect() as db:
            return list(db.execute(sa.select(entry).where(entry.c.action == action).order_by(entry.c.id)))
