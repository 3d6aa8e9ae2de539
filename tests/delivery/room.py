"""What the tests of the whole engine stand on: parts that are all real but for time, dice and tokens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Self
from uuid import UUID, uuid4

import sqlalchemy as sa

from outbox_admin import KeyRing, Message, Outbox
from outbox_admin.core.backoff import Backoff
from outbox_admin.core.lifecycle import Policy
from outbox_admin.crypto.envelope import Binding
from outbox_admin.db.schema import email_attempt, email_outbox
from outbox_admin.db.store import reclaim
from outbox_admin.delivery.clock import Clock
from outbox_admin.delivery.common import Common
from outbox_admin.delivery.dispatcher import Cycle, Dispatcher
from outbox_admin.delivery.parts import Parts, Rules
from outbox_admin.delivery.place import Place
from outbox_admin.delivery.routes import Route, Tls
from outbox_admin.delivery.worker import Worker
from tests.support.clock import FakeClock
from tests.support.ports import HOST

SENDER = "Shop <no-reply@shop.example>"
CAREFUL = Rules(sender=SENDER)
PLAIN = replace(
    CAREFUL,
    policy=Policy(Backoff(), counts_channel_faults=True),
    literal_5xx=True,
    breaker=False,
    unknown_key_grace=timedelta(0),
    window=1,
)

_numbers = count(1)


def route_to(port: int, *, name: str = "primary", **fields: Any) -> Route:
    """Plain SMTP on the loopback address, with short limits."""
    limits = {"reply_timeout": 5.0, "final_timeout": 5.0, "helo": "worker.example"}
    return Route(name=name, host=HOST, port=port, tls=Tls.NONE, **(limits | fields))


@dataclass
class Room:
    """One database, one ring, one clock. Each `dispatcher` is a lane of a worker of its own."""

    engine: sa.Engine
    clock: FakeClock
    ring: KeyRing = field(default_factory=KeyRing.generate)
    roll: Callable[[], float] = lambda: 0.0

    closing: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.closing.close()

    def __post_init__(self) -> None:
        self.outbox = Outbox(keys=self.ring, sender=SENDER, clock=self.clock.now)

    def rules(self, **changes: Any) -> Rules:
        return replace(CAREFUL, **changes)

    def parts(
        self,
        *routes: Route,
        rules: Rules = CAREFUL,
        host_is_fast_by: timedelta = timedelta(0),
        **changes: Any,
    ) -> Parts:
        clock = Clock(
            source=lambda db: self.clock.now(),
            host=lambda: self.clock.now() + host_is_fast_by,
            monotonic=self.clock.monotonic,
            wait=self.clock.wait,
        )
        made = Parts(self.engine, self.ring, routes, rules, clock, self.roll, uuid4)
        return replace(made, **changes)

    def dispatcher(self, *routes: Route, rules: Rules = CAREFUL, **changes: Any) -> Dispatcher:
        parts = self.parts(*routes, rules=rules, **changes)
        made = Dispatcher(parts, Common(parts), Place(f"worker-{next(_numbers)}"))
        self.closing.callback(made.close)
        return made

    def worker(
        self,
        *routes: Route,
        rules: Rules = CAREFUL,
        lanes: int = 1,
        kind: str = "worker",
        **changes: Any,
    ) -> Worker:
        """Not started. What still runs at the end of the test is stopped, and its connections are closed."""
        made = Worker(self.parts(*routes, rules=rules, **changes), lanes=lanes, kind=kind)
        self.closing.callback(_end, made)
        return made

    def enqueue(self, to: str = "jane@example.com", *, key: str | None = None, **options: Any) -> UUID:
        self.clock.stay_ahead()
        message = options.pop("message", None) or Message(to, "Hello", "Hello Jane\n")
        with self.engine.begin() as db:
            key = key or f"test:{next(_numbers)}"
            return self.outbox.enqueue(db, message, idempotency_key=key, **options).id

    def reading(self) -> sa.Connection:
        """Waits for no writer."""
        return self.engine.connect().execution_options(sqlite_begin="DEFERRED")

    def row(self, row_id: UUID) -> Any:
        with self.reading() as db:
            return db.execute(sa.select(email_outbox).where(email_outbox.c.id == row_id)).one()

    def rows(self) -> list[Any]:
        with self.reading() as db:
            return list(db.execute(sa.select(email_outbox).order_by(email_outbox.c.id)))

    def states(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for row in self.rows():
            found[row.state] = found.get(row.state, 0) + 1
        return found

    def attempts(self, row_id: UUID) -> list[Any]:
        history = sa.select(email_attempt).where(email_attempt.c.outbox_id == row_id)
        with self.reading() as db:
            return list(db.execute(history.order_by(email_attempt.c.id)))

    def change(self, row_id: UUID, **values: Any) -> None:
        """Behind the store's back, as damage or another program would."""
        with self.engine.begin() as db:
            db.execute(sa.update(email_outbox).where(email_outbox.c.id == row_id).values(**values))

    def seal(self, row_id: UUID, plaintext: bytes) -> None:
        """Puts another payload into a row, sealed as ours: made by hand, or by another program."""
        row = self.row(row_id)
        binding = Binding(row_id, row.idempotency_key, row.recipient, row.template_key)
        payload = self.ring.seal(plaintext, binding)
        self.change(row_id, payload=payload, payload_size=len(payload))

    def damage(self, row_id: UUID) -> None:
        """Flips one bit of the payload, as a failing disk would: whatever stood there, it never opens again."""
        payload = self.row(row_id).payload
        self.change(row_id, payload=payload[:-1] + bytes([payload[-1] ^ 1]))

    def reclaim(self) -> int:
        with self.engine.begin() as db:
            return len(reclaim.reclaim(db, now=self.clock.now()))

    def lose(self, row_id: UUID) -> None:
        """As if its worker had been silent for a lease: the row is taken back."""
        self.change(row_id, lease_until=self.clock.now() - timedelta(seconds=1))
        assert self.reclaim() == 1

    def due(self, row_id: UUID) -> datetime:
        moment: datetime = self.row(row_id).due_at
        return moment


def _end(worker: Worker) -> None:
    if any(lane.alive for lane in worker.lanes):
        worker.stop(0)
    for lane in worker.lanes:
        lane.dispatcher.close()


def drain(dispatcher: Dispatcher) -> list[Cycle]:
    """Cycle after cycle, as a lane does, until one says that no more is due."""
    cycles = [dispatcher.cycle()]
    while cycles[-1].more:
        cycles.append(dispatcher.cycle())
    return cycles
