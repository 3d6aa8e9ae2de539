"""``enqueue``: what a message adds to the caller's transaction, and how many a second ``enqueue_many`` writes."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from outbox_admin import Outbox
from tests.benchmarks import contenders, mail
from tests.benchmarks.report import Report, median, quantile, say
from tests.support import databases
from tests.support.postgres import PostgresServer

WARM_UP = 50
#: Messages of one call of enqueue_many.
TOGETHER = 500
TABLE = sa.Table(
    "orders", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("customer", sa.Text)
)
Change = Callable[[sa.Connection, int], object]


def measure(server: PostgresServer, options: argparse.Namespace) -> Report:
    number = options.messages or (20 if options.quick else 2000)
    report = Report("enqueue")
    with tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder:
        outbox = Outbox(keys=contenders.ring(Path(folder)), sender=mail.SENDER)
        added = [_added(server, outbox, number) for _ in range(options.rounds)]
        rates = [_many(server, outbox, number * 10) for _ in range(options.rounds)]
    for name in added[0]:
        report.rows.append({"what": name, "value": median(one[name] for one in added)})
    report.rows.append({"what": "enqueue_many, rows a second", "value": median(rates)})
    report.rounds += [*added, {"rows a second": rates}]
    report.notes.append(
        f"{number:,} transactions of each kind in turn, each with one row of business; {number * 10:,} rows with "
        f"enqueue_many, {TOGETHER} a call and a transaction. Medians of {options.rounds} rounds."
    )
    return report


def _added(server: PostgresServer, outbox: Outbox, number: int) -> dict[str, float]:
    """Milliseconds of a transaction with one business row, with and without a message; the two take turns."""

    def with_mail(db: sa.Connection, one: int) -> None:
        _order(db, one)
        entry = contenders.entry(one)
        outbox.enqueue(db, entry.message, idempotency_key=entry.idempotency_key)

    with (
        databases.fresh_postgres(server, template=databases.TEMPLATE) as url,
        databases.disposable_engine(url) as engine,
    ):
        TABLE.create(engine)
        bare, whole = [], []
        for one in range(number + WARM_UP):
            bare.append(_timed(engine, _order, one))
            whole.append(_timed(engine, with_mail, one))
    return _compared(bare[WARM_UP:], whole[WARM_UP:])


def _compared(bare: list[float], whole: list[float]) -> dict[str, float]:
    added = ((median(whole) or 0) - (median(bare) or 0)) * 1000
    say(f"added by a message: {added:.3f} ms")
    return {
        "transaction without a message, median ms": (median(bare) or 0) * 1000,
        "with a message, median ms": (median(whole) or 0) * 1000,
        "with a message, p95 ms": quantile(whole, 0.95) * 1000,
        "added by the message, ms": added,
    }


def _order(db: sa.Connection, one: int) -> None:
    db.execute(sa.insert(TABLE).values(customer=f"customer {one}"))


def _timed(engine: sa.Engine, change: Change, one: int) -> float:
    began = time.perf_counter()
    with engine.begin() as db:
        change(db, one)
    return time.perf_counter() - began


def _many(server: PostgresServer, outbox: Outbox, number: int) -> float:
    """Rows a second, the making of the messages not counted."""
    entries = [contenders.entry(one) for one in range(number)]
    with (
        databases.fresh_postgres(server, template=databases.TEMPLATE) as url,
        databases.disposable_engine(url) as engine,
    ):
        began = time.perf_counter()
        for start in range(0, number, TOGETHER):
            with engine.begin() as db:
                outbox.enqueue_many(db, entries[start : start + TOGETHER])
        return number / (time.perf_counter() - began)
