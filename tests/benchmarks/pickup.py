"""``pickup``: from the commit of a message to the moment at which the relay reads its MAIL, the queue being idle."""

from __future__ import annotations

import argparse
import logging
import os
import random
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from outbox_admin import assemble
from outbox_admin.config import SETTINGS, Settings
from tests.benchmarks import contenders, servers
from tests.benchmarks.contenders import Place
from tests.benchmarks.report import Report, median, quantile, say
from tests.support import databases
from tests.support.children import child
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

_MAIL = re.compile(rb"^X-Mail-At: ([\d.]+)\nX-Rcpt-Args: <customer-(\d+)@", re.MULTILINE)
WAKEUP = "OUTBOX_WAKEUP"


@dataclass(frozen=True, slots=True)
class Way:
    """``pause``: the longest wait, in seconds, between two messages; the shortest is its half."""

    name: str
    settings: dict[str, str]
    messages: int
    pause: float
    embedded: bool = False


def ways() -> list[Way]:
    """Those that the product has: what is not built is not measured."""
    known = {setting.name for setting in SETTINGS}
    polling = {WAKEUP: "poll"} if WAKEUP in known else {}
    found = [Way("a worker that polls", polling, 40, 5.0)]
    if WAKEUP in known:
        notify = {WAKEUP: "notify", "OUTBOX_NOTIFY": "urgent"}
        found.append(Way("a worker that listens", notify, 300, 0.2))
        found.append(Way("in the producer's process", polling, 300, 0.2, embedded=True))
    return found


def measure(server: PostgresServer, options: argparse.Namespace) -> Report:
    report = Report("pickup")
    for way in ways():
        number = options.messages or (2 if options.quick else way.messages)
        waits = [wait for _ in range(options.rounds) for wait in _waits(server, way, number, options)]
        say(f"{way.name}: {len(waits)} messages")
        report.rows.append(
            {
                "way": way.name,
                "median ms": (median(waits) or 0) * 1000,
                "p95 ms": quantile(waits, 0.95) * 1000,
                "longest ms": max(waits) * 1000,
                "messages": len(waits),
            }
        )
        report.rounds.append({"way": way.name, "seconds": waits})
    report.notes.append(
        "From the return of the commit to the relay's reading of MAIL; the worker had nothing to do."
    )
    if WAKEUP not in {setting.name for setting in SETTINGS}:
        report.notes.append("Nothing wakes a worker yet: it polls.")
    return report


def _waits(server: PostgresServer, way: Way, number: int, options: argparse.Namespace) -> list[float]:
    with (
        tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder,
        servers.relay() as relay,
        databases.fresh_postgres(server, template=databases.TEMPLATE) as url,
    ):
        place = Place(url, relay.port, Path(folder))
        given = dict(pair.split("=", 1) for pair in options.set)
        hurry = {"OUTBOX_CYCLE": "0.1s"} if options.quick else {}
        environ = contenders.settings(place) | hurry | way.settings | given
        environ = {name: value for name, value in environ.items() if name.startswith("OUTBOX_")}
        with databases.disposable_engine(url) as engine, _worker(way, environ, engine, Path(folder)):
            commits = _produce(engine, environ, number, 0.01 if options.quick else way.pause)
        servers.stop(relay)
        found = _MAIL.findall(b"".join(dump.read_bytes() for dump in relay.dumps()))
        arrived = {int(digits): float(moment) for moment, digits in found}
    return [arrived[one] - moment for one, moment in commits.items()]


@contextmanager
def _worker(way: Way, environ: dict[str, str], engine: sa.Engine, folder: Path) -> Iterator[None]:
    """In a process of its own, or in this one."""
    if way.embedded:
        logging.getLogger("outbox_admin").addHandler(logging.NullHandler())
        worker = assemble.worker(Settings.from_env(environ), kind="embedded", over=engine)
        worker.start()
        try:
            yield
        finally:
            worker.stop()
        return
    whole = environ | {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    whole["PYTHONPATH"] = str(contenders.ROOT)
    with (folder / "log").open("wb") as log:
        command = [contenders.PROGRAM, "worker"]
        with child(command, env=whole, stdout=log, stderr=log):
            yield


def _produce(engine: sa.Engine, environ: dict[str, str], number: int, pause: float) -> dict[int, float]:
    """The moment of each commit. The first message only waits for the worker to be there, and is not counted."""
    outbox = assemble.outbox(Settings.from_env(environ))
    commits: dict[int, float] = {}
    for one in range(number + 1):
        with engine.begin() as db:
            entry = contenders.entry(one)
            outbox.enqueue(db, entry.message, idempotency_key=entry.idempotency_key, priority=0)
        commits[one] = time.monotonic()
        time.sleep(0.05)  # a look at the queue would take time from what is measured
        if not until(lambda: _is_empty(engine), every=0.05):
            raise RuntimeError("the worker does not send")
        time.sleep(random.uniform(pause / 2, pause))
    del commits[0]
    return commits


def _is_empty(engine: sa.Engine) -> bool:
    with engine.begin() as db:
        waiting = sa.text("SELECT 1 FROM email_outbox WHERE state IN ('pending', 'sending') LIMIT 1")
        return db.execute(waiting).first() is None
