"""The numbered steps of an e-mail's walk that happen inside a worker, and what befalls the worker at one of them.

The worker is the product's own. Only what is handed to it is wrapped: its engine, its key ring, its dice, its clock.
What the relay sees of the walk (steps 4, 6 and 7) is met at the relay.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from outbox_admin import assemble
from outbox_admin.config import Settings
from outbox_admin.delivery.clock import database_time
from outbox_admin.delivery.worker import Worker
from tests.faults.timeshift import Shift
from tests.support.databases import commits_itself, take_for


class Step(StrEnum):
    """Between the last statement of a transaction and its COMMIT, or right after the COMMIT was answered."""

    DRAWING = "a token is drawn"  # once for the worker's name, then before each claim
    CLAIMING = "2 claiming"
    CLAIMED = "2 claimed"
    OPENED = "3 opened"
    MARKING = "5 marking"
    MARKED = "5 marked"
    DECIDING = "8 deciding"
    RECORDING = "9 recording"
    RECORDED = "9 recorded"
    RELEASING = "released, not committed"
    RECLAIMING = "reclaimed, not committed"


@dataclass(frozen=True, slots=True)
class Fate:
    """What happens when ``at`` is reached for the ``nth`` time.

    ``act``: ``halt`` (waits as long as the file ``flag``, which it makes, exists), ``exit`` (with 137, as out of
    memory), or ``cut before``/``cut after``: the proxy listening for such orders at ``proxy`` cuts this connection
    before the COMMIT arrives, or before its answer does.
    """

    at: Step
    act: str
    nth: int = 1
    flag: str = ""
    proxy: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """One worker process.

    ``fast_by`` is the error of its host's clock; ``shift`` the file that says how far all time is ahead. ``patience``:
    how many seconds it waits for a busy SQLite, once it has been at work; as long as the product does where it is 0.
    ``direct``: what it takes the other end of a connection to PostgreSQL for, the server itself or a pooler; by what it
    finds where that is None.
    """

    environ: dict[str, str]
    lanes: int = 1
    drain: bool = False
    fate: Fate | None = None
    fast_by: float = 0.0
    shift: str = ""
    patience: float = 0.0
    direct: bool | None = None

    @classmethod
    def from_json(cls, text: str) -> Plan:
        given = json.loads(text)
        fate = given.pop("fate")
        made = None if fate is None else Fate(**{**fate, "at": Step(fate["at"])})
        return cls(**given, fate=made)


_UPDATE = re.compile(r"\bUPDATE email_outbox SET (?P<set>.*?)(?: WHERE | FROM )", re.DOTALL)


def transaction_of(statement: str) -> tuple[Step, Step | None] | None:
    """The steps before and after the COMMIT of the transaction in which ``statement`` runs, told by its columns."""
    update = _UPDATE.search(statement)
    return None if update is None else _steps_of(update)


def steps_within(statement: str, given: dict[str, Any]) -> list[tuple[Step, Step | None]]:
    """Of a statement that is a transaction by itself, and may record, claim and mark at once."""
    found = [_steps_of(update) for update in _UPDATE.finditer(statement)]
    recording = bool(given.get("new_id"))
    return [steps for steps in found if steps is not None and (recording or steps[0] is not Step.RECORDING)]


def _steps_of(update: re.Match[str]) -> tuple[Step, Step | None] | None:
    columns = {part.split("=")[0].strip() for part in update["set"].split(", ")}
    if "claimed_at" in columns:
        return Step.CLAIMING, Step.CLAIMED
    if "sent_at" in columns:
        return Step.RECORDING, Step.RECORDED
    if "handover_at" in columns and "state" not in columns:
        return Step.MARKING, Step.MARKED
    if "state" in columns and "tries" in columns:
        return Step.RELEASING, None
    if "state" in columns and "maybe_delivered" in columns:
        return Step.RECLAIMING, None
    return None


class Doom:
    """Counts the steps that are reached, in any thread, and acts when the time has come."""

    def __init__(self, fate: Fate | None) -> None:
        self._fate = fate
        self._lock = threading.Lock()
        self._left = fate.nth if fate else 0
        self._open = threading.local()

    def reached(self, step: Step | None, connection: Any = None) -> None:
        fate = self._fate
        if fate is None or step is not fate.at:
            return
        with self._lock:
            self._left -= 1
            strikes = self._left == 0
        if strikes:
            _strike(fate, connection)

    def watch(self, engine: sa.Engine) -> None:
        """Meets every transaction of ``engine`` on both sides of its COMMIT."""
        dialect: Any = engine.dialect
        commit = dialect.do_commit

        @sa.event.listens_for(engine, "before_cursor_execute")
        def note(db: Any, cursor: Any, statement: str, given: Any, *rest: Any) -> None:
            if not commits_itself(db):
                self._open.steps = transaction_of(statement) or getattr(self._open, "steps", None)
                return
            for before, _ in steps_within(statement, given):
                self.reached(before, db.connection)

        @sa.event.listens_for(engine, "after_cursor_execute")
        def done(db: Any, cursor: Any, statement: str, given: Any, *rest: Any) -> None:
            for _, after in steps_within(statement, given) if commits_itself(db) else ():
                self.reached(after, db.connection)

        @sa.event.listens_for(engine, "rollback")
        def forget(db: Any) -> None:
            self._open.steps = None

        def do_commit(connection: Any) -> None:
            before, after = getattr(self._open, "steps", None) or (None, None)
            self._open.steps = None
            self.reached(before, connection)
            commit(connection)
            self.reached(after, connection)

        dialect.do_commit = do_commit


def _strike(fate: Fate, connection: Any) -> None:
    match fate.act:
        case "exit":
            os._exit(137)
        case "cut before" | "cut after":
            mine = connection.dbapi_connection.pgconn.socket
            with socket.fromfd(mine, socket.AF_INET, socket.SOCK_STREAM) as sock:
                port = sock.getsockname()[1]
            with socket.create_connection(("127.0.0.1", fate.proxy), timeout=60) as orders:
                orders.sendall(json.dumps({"port": port, "when": fate.act.split()[1]}).encode() + b"\n")
                orders.recv(1)  # the proxy has understood
        case "halt":
            flag = Path(fate.flag)
            flag.touch()
            while flag.exists():
                time.sleep(0.005)


class Ring:
    """The worker's key ring; a payload that was opened is a step."""

    def __init__(self, ring: Any, doom: Doom) -> None:
        self._ring, self._doom = ring, doom

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ring, name)

    def open(self, *arguments: Any, **options: Any) -> Any:
        plaintext = self._ring.open(*arguments, **options)
        self._doom.reached(Step.OPENED)
        return plaintext


def chance(plan: Plan, doom: Doom) -> assemble.Chance:
    """Dice and tokens that are steps, and clocks that are as wrong and as far ahead as planned."""
    ahead = Shift(Path(plan.shift)).seconds if plan.shift else lambda: 0.0

    def roll() -> float:
        if threading.current_thread().name == "outbox-lane":  # the poller has dice, too
            doom.reached(Step.DECIDING)
        return 0.0

    def token() -> UUID:
        doom.reached(Step.DRAWING)
        return uuid4()

    def host() -> datetime:
        return assemble.host_time() + timedelta(seconds=plan.fast_by)

    read = database_time(host)
    return assemble.Chance(
        host=lambda: host() + timedelta(seconds=ahead()),
        source=lambda db: read(db) + timedelta(seconds=ahead()),
        monotonic=lambda: time.monotonic() + ahead(),
        roll=roll,
        token=token,
    )


def build(plan: Plan) -> Worker:
    """The product's worker over wrapped parts. For a process of its own."""
    settings = Settings.from_env(plan.environ)
    assemble.log_to_stderr()
    doom = Doom(plan.fate)
    engine = assemble.engine(settings)
    doom.watch(engine)
    if plan.direct is not None:
        take_for(engine, direct=plan.direct)
    if plan.patience:
        sa.event.listen(engine, "begin", _less_patient(plan.patience))
    parts = assemble.parts(settings, over=engine, chance=chance(plan, doom))
    return Worker(replace(parts, ring=Ring(parts.ring, doom)), lanes=plan.lanes)


def _less_patient(seconds: float) -> Callable[[sa.Connection], object]:
    return lambda db: db.exec_driver_sql(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")


def live(plan: Plan) -> int:
    """Builds and runs it; the exit code."""
    worker = build(plan)
    if not plan.drain:
        return worker.run()
    done = worker.drain()
    return 1 if done.failed or done.paused else 0
