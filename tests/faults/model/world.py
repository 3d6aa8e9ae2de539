"""Workers, producers and operators over one real database, with a scripted relay and a clock that is told the time.

Everything happens in one thread and in a chosen order; what runs at the same time in life is played by acting while a
worker is in the middle of its hand-over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin import KeyRing, Message
from outbox_admin.core.hold import Scope
from outbox_admin.db import schema
from outbox_admin.db.schema import outbox_hold, suppression
from outbox_admin.db.store import holds, operator, retention, suppressions
from outbox_admin.delivery.ways import Way
from outbox_admin.delivery.worker import Worker
from tests.delivery.room import Room, route_to
from tests.faults.model import laws
from tests.faults.model.interference import Actor, Fate, Interference, Killed
from tests.faults.model.relay import Play, ScriptedSession
from tests.faults.model.truth import Truth
from tests.support.clock import FakeClock

RING = KeyRing.generate()
MOMENTS = 60  #: rounds after which the end of everything must have come


class Stage:
    """One database for many worlds, one after the other; each begins with empty tables."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.interference = Interference(engine)
        if engine.dialect.name == "sqlite":  # what is not on the disk yet is no loss here
            sa.event.listen(engine, "connect", lambda db, _: db.execute("PRAGMA synchronous = OFF"))
            engine.dispose()

    def clear(self) -> None:
        with self.engine.begin() as db:
            for table in reversed(schema.metadata.sorted_tables):
                db.execute(sa.delete(table))


@dataclass
class World:
    stage: Stage
    clock: FakeClock = field(default_factory=FakeClock)
    truth: Truth = field(default_factory=Truth)
    plays: list[Play] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine, self.interference = self.stage.engine, self.stage.interference
        self.room = Room(self.engine, self.clock, ring=RING, roll=lambda: 0.5)
        self.before: dict[UUID, Any] = {}
        self.broken: list[AssertionError] = []
        self._heard: list[str] = []
        self._hands: dict[str, datetime] = {}
        self._numbers = count(1)
        self._actors: list[Actor] = []
        self._busy: list[Worker] = []
        self.stage.clear()
        self.start_worker()
        self.start_worker()

    # -- what can be done

    def start_worker(self) -> None:
        if len(self.workers) == 3:
            return
        rules = self.room.rules(batch=3, give_up_after=timedelta(days=30))
        worker = Worker(self.room.parts(route_to(1), rules=rules))
        worker.common.stopping.over.wait = self._pass  # type: ignore[method-assign]
        lane = worker.lanes[0].dispatcher
        lane._ways._ways = [Way("primary", ScriptedSession(self, worker))]
        for asked in (1, 2):
            lane._pace.note(asked=asked, got=asked, seconds=0.01)  # it has been busy: it takes a whole batch
        mark = lane.claiming.mark
        lane.claiming.mark = lambda *asked: self._marked(mark(*asked))  # type: ignore[method-assign]
        worker.upkeep.open()
        self.workers.append(worker)

    def kill(self, number: int) -> None:
        self.workers.remove(self._worker(number))
        self.start_worker()

    def work(
        self, number: int, plays: Iterable[Play] = (), fate: Fate | None = None, *, sweeps: bool = False
    ) -> None:
        """One cycle of a worker, and those that its results wait for; its upkeep first where ``sweeps``."""
        worker = self._worker(number)
        if worker in self._busy:
            return
        kept, self.plays = self.plays, list(plays)
        before, self._heard = self._heard, []
        actor = Actor(fate)
        self._actors.append(actor)
        self._busy.append(worker)
        try:
            with self.interference.step(actor), suppress(Killed):
                if sweeps:
                    worker.upkeep.round()
                lane = worker.lanes[0].dispatcher
                while lane.cycle().more and lane.ledger.waiting:
                    pass
        finally:
            self._busy.remove(worker)
            self._actors.pop()
            self.plays = kept
            heard, self._heard = self._heard, before
        if not actor.dead:
            self._check_heard(worker.name, heard)
        if actor.dead:
            self.workers.remove(worker)
            self.start_worker()

    def enqueue(self, recipients: int, *, kept: bool = True, **options: Any) -> None:
        names = [f"r{next(self._numbers)}@example.com" for _ in range(recipients)]
        key = f"model:{next(self._numbers)}"
        with self.interference.step(None), self.engine.connect() as db:
            receipt = self.room.outbox.enqueue(
                db, Message(names, "Hi", "Hello\n"), idempotency_key=key, **options
            )
            if not kept:
                db.rollback()
                return
            db.commit()
        self.truth.owed |= {one.id: one.recipient for one in receipt.rows}

    def enqueue_again(self, number: int) -> None:
        row = self._row(number)
        if row is None:
            return
        recipients = [one.recipient for one in self.rows() if one.idempotency_key == row.idempotency_key]
        with self.interference.step(None), self.engine.begin() as db:
            message = Message(recipients, "Other", "Other\n")
            receipt = self.room.outbox.enqueue(db, message, idempotency_key=row.idempotency_key)
        assert not receipt.created

    def withdraw(self, number: int) -> None:
        row = self._row(number)
        if row is not None:
            self._do(lambda db: self.room.outbox.cancel(db, row.idempotency_key))

    def operate(self, number: int, what: str) -> None:
        """An operator's button on one message."""
        row, now = self._row(number), self.clock.now()
        if row is None:
            return
        match what:
            case "retry" | "resend":
                press = operator.retry if what == "retry" else operator.resend
                if self._do(lambda db: press(db, row.id, now=now)) == "moved":
                    self.truth.resends[row.id] += 1
            case "arrived" | "give up":
                arrived = what == "arrived"
                if self._do(lambda db: operator.settle(db, row.id, arrived=arrived, now=now)) and arrived:
                    self.truth.settled.add(row.id)
            case "cancel":
                self._do(lambda db: operator.cancel(db, row.id, now=now))
            case "suppress":
                key, words = row.recipient_key, {"reason": "asked", "who": "model"}
                self._do(lambda db: suppressions.add(db, recipient_key=key, now=now, **words))

    def hold(self, scope: Scope, value: str = "") -> None:
        words = {"reason": "model", "who": "model", "until": None}
        self._do(lambda db: holds.place(db, scope=scope, value=value, now=self.clock.now(), **words))  # type: ignore[arg-type]

    def lift(self) -> None:
        for one in self._read(outbox_hold):
            self._do(partial(holds.lift, hold_id=one.id, now=self.clock.now()))

    def purge(self) -> None:
        """As if a month had passed for what is dead."""
        self.truth.purged |= {row.id for row in self.rows() if row.state in ("failed", "uncertain")}
        month, years = timedelta(days=30), timedelta(days=9999)
        now = self.clock.now() + month + timedelta(seconds=1)
        self._do(
            lambda db: retention.purge(db, now=now, keep_payload=month, keep_done=years, keep_dead=years)
        )

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)

    # -- what must hold

    @contextmanager
    def judging(self) -> Iterator[None]:
        """In the middle of a worker's step, where the worker would take a broken law for a fault of its own."""
        try:
            yield
        except AssertionError as broken:
            self.broken.append(broken)

    @contextmanager
    def hand(self, recipient: str) -> Iterator[None]:
        """For as long as a hand-over may take nobody else begins one of the same row, while its worker lives."""
        now = self.clock.now()
        with self.judging():
            assert self._hands.get(recipient, now) <= now, "in two hands"
        self._hands[recipient] = now + timedelta(seconds=180)
        try:
            yield
        finally:
            self._hands.pop(recipient, None)

    def check(self) -> None:
        if self.broken:
            raise self.broken[0]
        rows = self.rows()
        laws.check(rows, self.before, self.truth)
        self.before = {row.id: row for row in rows}

    def finish(self) -> None:
        """Everybody is well again, and all that was owed is settled, in so many rounds."""
        self.workers.clear()
        self.start_worker()
        self.lift()
        self._do(lambda db: db.execute(sa.delete(suppression)))
        self._run_dry()
        for number, row in enumerate(self.rows()):
            if row.state in ("failed", "uncertain"):
                self.operate(number, "retry")
        self._run_dry()
        rows = self.rows()
        for row in rows:
            excused = row.payload is None or (
                row.expires_at is not None and row.expires_at <= self.clock.now()
            )
            replaced = any(laws.replaces(other, row) for other in rows)
            assert row.state not in ("failed", "uncertain") or excused or replaced, (
                f"{row.state} although all is well"
            )
        self._check_counts()

    def _run_dry(self) -> None:
        for _ in range(MOMENTS):
            self.work(0, sweeps=True)
            self.check()
            if not any(row.state in laws.LIVE for row in self.rows()):
                return
            self.advance(317)
        raise AssertionError(f"not done after {MOMENTS} rounds: {self.room.states()}")

    def _check_heard(self, worker: str, recipients: Iterable[str]) -> None:
        """A worker that lives has recorded what its relay said, however often its database failed."""
        for recipient in recipients:
            row = self.row_of(recipient)
            others = row.state == "sending" and row.claimed_by != worker
            assert others or row.state in laws.FINAL, f"heard as accepted, and {row.state}"

    def _check_counts(self) -> None:
        """Each acceptance that a row tells of was counted once."""
        sent = sum(row.state == "sent" and row.id not in self.truth.settled for row in self.rows())
        counted = sum(one.count for one in self._read(schema.outbox_minute) if one.outcome == "accepted")
        assert counted == sent, f"{counted} acceptances counted, {sent} rows sent"

    # -- reading

    @property
    def actor(self) -> Actor:
        return self._actors[-1]

    @property
    def next_verdict(self) -> str:
        return self.plays[0].verdict if self.plays else "accept"

    def rows(self) -> list[Any]:
        with self.interference.step(None):
            return self.room.rows()

    def row_of(self, recipient: str) -> Any:
        return next(row for row in self.rows() if row.recipient == recipient)

    def _row(self, number: int) -> Any:
        rows = self.rows()
        return rows[number % len(rows)] if rows else None

    def _worker(self, number: int) -> Worker:
        return self.workers[number % len(self.workers)]

    def _read(self, table: sa.Table) -> Sequence[Any]:
        with self.interference.step(None), self.engine.begin() as db:
            return db.execute(sa.select(table)).all()

    def _do(self, deed: Callable[[sa.Connection], Any]) -> Any:
        with self.interference.step(None), self.engine.begin() as db:
            return deed(db)

    def _marked(self, ready: list[Any]) -> list[Any]:
        rows = self.rows()
        now, suppressed = self.clock.now(), {one.recipient_key for one in self._read(suppression)}
        lasting = [one for one in self._read(outbox_hold) if one.until is None or one.until > now]
        with self.judging():
            for one in ready:
                row = next(row for row in rows if row.id == one.claim.id)
                laws.mark(row, rows, holds=lasting, suppressed=suppressed)
        return ready

    def _pass(self, timeout: float | None = None) -> bool:
        self.clock.advance(seconds=timeout or 0.0)
        return False
