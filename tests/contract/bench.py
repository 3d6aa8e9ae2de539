"""The real parts around one database: ring, producer, worker and relay, with a clock that moves when it is told to.

Everything is put together by assemble from settings, as in production; only time and dice are the test's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin import assemble
from outbox_admin.config import Settings
from outbox_admin.core.message import AnyMessage, Message
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.db.schema import email_attempt, email_outbox
from outbox_admin.db.store import operator
from outbox_admin.delivery.worker import Drained, Worker
from outbox_admin.demo.relay import Catcher
from outbox_admin.producer import Outbox
from tests.support.children import child
from tests.support.clock import FakeClock
from tests.support.ports import HOST, free_port
from tests.support.relay import Relay

SENDER = "Shop <no-reply@shop.example>"
JANE = "jane@customer.example"
_numbers = count(1)


class Bench:
    """``settings`` are given as ``rules="plain", smtp_timeout="1s"``; the relay's place comes by itself."""

    def __init__(
        self,
        engine: sa.Engine,
        folder: Path,
        *,
        relay: Catcher | Relay | None = None,
        clock: FakeClock | None = None,
        **settings: str,
    ) -> None:
        self.engine = engine
        self.folder = folder
        self.clock = clock or FakeClock()
        self.roll = 0.0
        self.key_ring = folder / "keyring.json"
        if not self.key_ring.exists():
            KeyRing.generate().write(self.key_ring)
        self.ring = KeyRing.load(self.key_ring)
        self.outbox = Outbox(keys=self.ring, sender=SENDER, clock=self.clock.now)
        self._own = settings
        self.relay_port = relay.port if relay else None

    def environ(self, **changes: str) -> dict[str, str]:
        """The settings as environment variables."""
        url = self.engine.url.render_as_string(hide_password=False)
        places = {"env": "test", "database_url": url, "key_ring": str(self.key_ring), "sender": SENDER}
        if self.relay_port is not None:
            places |= {"smtp_url": f"smtp://{HOST}:{self.relay_port}", "smtp_tls": "none"}
        named = places | self._own | changes
        return {
            f"OUTBOX_{name.upper().replace('FIVE_XX', '5XX')}": text for name, text in named.items() if text
        }

    def settings(self, **changes: str) -> Settings:
        return Settings.from_env(self.environ(**changes))

    def add(
        self, to: str = JANE, *, key: str | None = None, message: AnyMessage | None = None, **options: Any
    ) -> UUID:
        """One message in a transaction of its own; the id of its first row."""
        with self.engine.begin() as db:
            return self.enqueue(db, to, key=key, message=message, **options)

    def enqueue(
        self,
        db: Any,
        to: str = JANE,
        *,
        key: str | None = None,
        message: AnyMessage | None = None,
        **options: Any,
    ) -> UUID:
        message = message or Message(to, "Please confirm your address", "Welcome!")
        key = key or f"key:{next(_numbers)}"
        return self.outbox.enqueue(db, message, idempotency_key=key, **options).id

    def worker(self, *, lanes: int = 1, **changes: str) -> Worker:
        chance = assemble.Chance(
            host=self.clock.now,
            monotonic=self.clock.monotonic,
            source=lambda db: self.clock.now(),
            roll=lambda: self.roll,
        )
        return assemble.worker(self.settings(**changes), over=self.engine, chance=chance, lanes=lanes)

    def drain(self, **changes: str) -> Drained:
        """What is due now is worked off by a fresh worker."""
        return self.worker(**changes).drain()

    def row(self, row_id: UUID) -> Any:
        with self.engine.connect() as db:
            return db.execute(sa.select(email_outbox).where(email_outbox.c.id == row_id)).one()

    def rows(self) -> list[Any]:
        with self.engine.connect() as db:
            return list(db.execute(sa.select(email_outbox).order_by(email_outbox.c.id)))

    def states(self) -> list[str]:
        return [row.state for row in self.rows()]

    def finish(self, row_id: UUID) -> None:
        """Out of the way of what the test does next."""
        with self.engine.begin() as db:
            operator.cancel(db, row_id, now=self.clock.now())

    def tries(self, row_id: UUID) -> list[Any]:
        """The history of one message, the first try first."""
        query = sa.select(email_attempt).where(email_attempt.c.outbox_id == row_id)
        with self.engine.connect() as db:
            return list(db.execute(query.order_by(email_attempt.c.number)))

    @contextmanager
    def process(self, *command: str, **changes: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process with these settings, in the folder; it is killed at the end if it still runs."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        with (self.folder / f"process-{next(_numbers)}.log").open("wb") as log:
            options = {
                "cwd": self.folder,
                "env": kept | self.environ(**changes),
                "stdout": log,
                "stderr": log,
            }
            with child(command, **options) as running:
                yield running

    def logs(self) -> str:
        """What all processes of this bench have written."""
        return "\n".join(file.read_text() for file in sorted(self.folder.glob("process-*.log")))


def outbox_admin(*arguments: str) -> tuple[str, ...]:
    """The command line as a process."""
    return (sys.executable, "-c", "from outbox_admin.cli import main; main()", *arguments)


def nobody_listens() -> int:
    """A port on which there is no relay."""
    return free_port()
