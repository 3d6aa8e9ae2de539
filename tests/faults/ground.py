"""Where workers are put to the test: a real database, a key ring, a relay, and a nursery of worker processes."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa

from outbox_admin import Entry, KeyRing, Message, Outbox
from outbox_admin.db.schema import email_attempt, email_outbox, outbox_worker
from tests.faults.nursery import PATIENCE, Child, Nursery
from tests.faults.steps import Fate, Plan
from tests.faults.timeshift import Shift
from tests.support import databases
from tests.support.ports import HOST
from tests.support.postgres import NOT_FOUND, PostgresServer, find_binaries, running_postgres
from tests.support.waiting import until

SENDER = "Shop <no-reply@shop.example>"
row = email_outbox.c
Result = TypeVar("Result")


@dataclass
class Ground:
    """``settings`` are those of every worker: ``window="1"``. ``direct``: see steps.Plan.

    Nobody waits for a lease to end: ``shift`` moves the clocks of all workers, :meth:`lapse` ends that of a dead one.
    """

    url: str
    engine: sa.Engine
    folder: Path
    relay_port: int
    nursery: Nursery
    settings: dict[str, str] = field(default_factory=dict)
    direct: bool | None = None
    children: list[Child] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.ring_file = self.folder / "keyring.json"
        KeyRing.generate().write(self.ring_file)
        self.outbox = Outbox(keys=KeyRing.load(self.ring_file), sender=SENDER)
        self.shift = Shift(self.folder / "shift")

    @property
    def is_postgres(self) -> bool:
        return self.engine.dialect.name == "postgresql"

    def environ(self, **changes: str) -> dict[str, str]:
        """As an operator would set them; the waits are short."""
        named = {
            "env": "test",
            "database_url": self.url,
            "key_ring": str(self.ring_file),
            "sender": SENDER,
            "smtp_url": f"smtp://{HOST}:{self.relay_port}",
            "smtp_tls": "none",
            "cycle": "0.1s",
            "backoff_base": "0.1s",
        }
        made = {
            f"OUTBOX_{name.upper()}": text for name, text in (named | self.settings | changes).items() if text
        }
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return kept | made

    def enqueue(self, number: int = 1, **options: Any) -> list[UUID]:
        """In transactions of 500, as a busy application would."""
        ids: list[UUID] = []
        for start in range(0, number, 500):
            ids += self._enqueue([self._entry(**options) for _ in range(min(500, number - start))])
        return ids

    def add(self, number: int) -> None:
        """In one transaction and once, whatever becomes of it."""
        with self.engine.begin() as db:
            self.outbox.enqueue_many(db, [self._entry() for _ in range(number)])

    def _enqueue(self, entries: list[Entry]) -> list[UUID]:
        return self.change(lambda db: [one.id for one in self.outbox.enqueue_many(db, entries)])

    def _entry(self, **options: Any) -> Entry:
        number = next(self._numbers)
        text = f"Hello, this is message {number}.\n.\n..\nGood bye.\n"
        return Entry(
            Message(f"customer-{number}@customer.example", f"Message {number}", text),
            f"test:{number}",
            **options,
        )

    def start(self, fate: Fate | None = None, *, lanes: int = 1, drain: bool = False, **more: Any) -> Child:
        """A worker process. On PostgreSQL its connections carry a name of their own."""
        settings = more.pop("settings", {})
        name = f"worker-{len(self.children) + 1}"
        url = settings.get("database_url", self.url)
        if self.is_postgres:
            url += ("&" if "?" in url else "?") + f"application_name={name}"
        environ = self.environ(**settings | {"database_url": url})
        log = self.folder / f"{name}.log"
        plan = Plan(
            environ,
            lanes=lanes,
            drain=drain,
            fate=fate,
            shift=str(self.shift.file),
            direct=self.direct,
            **more,
        )
        child = self.nursery.start(plan, log)
        self.children.append(child)
        self.names[child.pid] = name
        return child

    def has_begun(self, child: Child) -> bool:
        """Whether it has shown a sign of life, and so listens to signals."""
        beats = sa.select(outbox_worker.c.id).where(outbox_worker.c.pid == child.pid)
        return self.look(lambda db: db.execute(beats).first() is not None)

    def freeze(self, child: Child) -> None:
        """Signal 19. On SQLite not while one of its threads holds the write lock, which would stop everybody."""

        def stop(db: sa.Connection) -> None:
            child.signal(signal.SIGSTOP)
            assert self.nursery.until(lambda: child.stopped)

        self.change(stop)

    def clear(self) -> None:
        """Kills what still runs."""
        for child in self.children:
            child.signal(signal.SIGKILL)
        for child in self.children:
            self.nursery.wait(child)
        self.shift.close()

    def rows(self) -> list[Any]:
        return self.look(lambda db: list(db.execute(sa.select(email_outbox).order_by(row.id))))

    def row(self, row_id: UUID) -> Any:
        query = sa.select(email_outbox).where(row.id == row_id)
        return self.look(lambda db: db.execute(query).one())

    def attempts(self, row_id: UUID) -> list[Any]:
        query = sa.select(email_attempt).where(email_attempt.c.outbox_id == row_id)
        return self.look(lambda db: list(db.execute(query.order_by(email_attempt.c.number))))

    def states(self) -> dict[str, int]:
        query = sa.select(row.state, sa.func.count().label("number")).group_by(row.state)
        return self.look(lambda db: {one.state: one.number for one in db.execute(query)})

    def lapse(self, child: Child) -> list[UUID]:
        """As if a lease had passed since that worker fell silent; gives the rows whose hand-over it had begun.

        A COMMIT that it had sent off before its end may still be under way: it is waited for.
        """
        self._wait_for_backends(child)
        mine = sa.and_(row.state == "sending", row.claimed_by.like(f"%:{child.pid}:%"))
        past = datetime.now(UTC) - timedelta(seconds=1)

        def end(db: sa.Connection) -> list[UUID]:
            begun = sa.select(row.id).where(mine, row.handover_at.is_not(None))
            ids = list(db.execute(begun).scalars())
            db.execute(sa.update(email_outbox).where(mine).values(lease_until=past))
            return ids

        return self.change(end)

    def look(self, step: Callable[[sa.Connection], Result]) -> Result:
        """Reads, in nobody's way."""
        return self._insist(self.engine.execution_options(sqlite_begin="DEFERRED"), step)

    def change(self, step: Callable[[sa.Connection], Result]) -> Result:
        return self._insist(self.engine, step)

    def _insist(self, engine: sa.Engine, step: Callable[[sa.Connection], Result]) -> Result:
        """In a transaction, again and again: on SQLite many lanes may keep the lock for longer than one waits."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with engine.begin() as db:
                    return step(db)
            except sa.exc.OperationalError:
                if time.monotonic() > end:
                    raise

    def _wait_for_backends(self, child: Child) -> None:
        if not self.is_postgres or child.alive:
            return
        left = sa.text("SELECT count(*) FROM pg_stat_activity WHERE application_name = :name")

        def gone() -> bool:
            return not self.look(lambda db: db.execute(left, {"name": self.names[child.pid]}).scalar_one())

        assert until(gone), "a killed worker's connections stay open"

    def settled(self) -> bool:
        """Whether nothing waits and nothing is being sent."""
        live = sa.select(row.id).where(row.state.in_(("pending", "sending"))).limit(1)
        return self.look(lambda db: db.execute(live).first() is None)

    def settles(self) -> bool:
        """Waits for that as long as a heap of mail may take on a slow machine."""
        return until(self.settled, seconds=PATIENCE)

    def logs(self) -> str:
        return "\n".join(child.words() for child in self.children)


@contextmanager
def durable_postgres() -> Iterator[PostgresServer]:
    """A server of its own that keeps what it has committed when it is killed."""
    binaries = find_binaries()
    if binaries is None:
        raise RuntimeError(NOT_FOUND)
    with running_postgres(binaries, synchronous_commit="on") as server:
        databases.create_template(server)
        yield server


@contextmanager
def fresh_ground(
    url: str, folder: Path, relay_port: int, nursery: Nursery, *, direct: bool | None = None, **settings: str
) -> Iterator[Ground]:
    """Over a migrated database; its workers do not outlive it."""
    with databases.disposable_engine(url) as engine:
        ground = Ground(url, engine, folder, relay_port, nursery, settings, direct)
        try:
            yield ground
        finally:
            ground.clear()


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="outbox-faults-") as folder:
        yield Path(folder)
