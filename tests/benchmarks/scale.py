"""``scale``: what a claim of 20 and the record of 20 cost beside millions of rows, and one to ten processes at once."""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from outbox_admin import assemble
from outbox_admin.config import Settings
from tests.benchmarks import arena, contenders, tables
from tests.benchmarks.arena import Arena, Bout
from tests.benchmarks.contenders import Place
from tests.benchmarks.report import Report, median, say
from tests.benchmarks.watch import watched
from tests.support import databases
from tests.support.postgres import PostgresServer

BATCH = 20
CYCLES = 150
DRAINED = 50_000
PROCESSES = (1, 2, 4, 7, 10)
_SENDING = ("OUTBOX_SMTP_URL", "OUTBOX_SMTP_TLS")
#: Due before all that makes the table large, so that these are what a claim finds first.
_FIRST = sa.text(
    "UPDATE email_outbox SET due_at = due_at - interval '2 hours', first_due_at = first_due_at - interval '2 hours' "
    "WHERE state = 'pending' AND idempotency_key LIKE 'bench:%'"
)


def measure(server: PostgresServer, options: argparse.Namespace) -> Report:
    report = Report("scale")
    rows = 200 if options.quick else options.rows
    drained = 40 if options.quick else min(DRAINED, rows)
    cycles = 2 if options.quick else CYCLES
    with tempfile.TemporaryDirectory(prefix="outbox-bench-") as name:
        _growth(report, server, Path(name), rows=rows, drained=drained, cycles=cycles)
        if not options.quick:
            _processes(report, server, Path(name), options)
    report.notes.append(
        f"Milliseconds that a worker waits for the database in one cycle: the claim of {BATCH}, its marks and the "
        f"record of {BATCH}, commits included; medians of {cycles} cycles."
    )
    return report


def _growth(
    report: Report, server: PostgresServer, folder: Path, *, rows: int, drained: int, cycles: int
) -> None:
    empty = f"{cycles * BATCH:,} pending rows, nothing else"
    with _database(server, folder) as (place, engine):
        _add(place, engine, cycles)
        first = _row(report, empty, _cycles(place, engine, cycles), None)
    with _database(server, folder) as (place, engine):
        tables.grow(engine, rows)
        _add(place, engine, cycles)
        _row(report, f"+ {rows:,} pending, {rows * 5:,} sent", _cycles(place, engine, cycles), first)
        _add(place, engine, drained // BATCH)
        with _old_snapshot(engine):
            _cycles(place, engine, drained // BATCH)
            _add(place, engine, cycles, settled=False)
            name = f"+ an open snapshot, {drained:,} drained since"
            _row(report, name, _cycles(place, engine, cycles), first)


def _row(report: Report, name: str, cycles: list[float], first: float | None) -> float:
    middle = (median(cycles) or 0) * 1000
    say(f"{name}: {middle:.2f} ms a cycle")
    report.rows.append({"beside": name, "cycle ms": middle, "x empty": middle / first if first else None})
    report.rounds.append({"beside": name, "seconds": cycles})
    return middle


@contextmanager
def _database(server: PostgresServer, folder: Path) -> Iterator[tuple[Place, sa.Engine]]:
    with databases.fresh_postgres(server, template=databases.TEMPLATE) as url:
        settings = Settings.from_env(_environ(Place(url, 1, folder)))
        engine = assemble.engine(settings)
        try:
            yield Place(url, 1, folder), engine
        finally:
            engine.dispose()


def _environ(place: Place) -> dict[str, str]:
    """Without a relay: mail is only marked as sent, and the database is what remains."""
    given = contenders.settings(place) | {"OUTBOX_SIMULATE": "1"}
    return {
        name: value for name, value in given.items() if name.startswith("OUTBOX_") and name not in _SENDING
    }


def _add(place: Place, engine: sa.Engine, cycles: int, *, settled: bool = True) -> None:
    """Messages for so many cycles and some to get up to speed, which are due before all others."""
    with engine.begin() as db:
        start = db.execute(sa.text("SELECT count(*) FROM email_outbox WHERE idempotency_key LIKE 'bench:%'"))
        first = start.scalar_one()
    contenders.fill(place, range(first, first + (cycles + 10) * BATCH))
    with engine.begin() as db:
        db.execute(_FIRST)
    if settled:
        tables.settle(engine)


def _cycles(place: Place, engine: sa.Engine, number: int) -> list[float]:
    """Seconds in the database of each full cycle of one lane."""
    logging.getLogger("outbox_admin").addHandler(logging.NullHandler())
    worker = assemble.worker(Settings.from_env(_environ(place)), lanes=1, over=engine)
    worker.upkeep.open()
    found: list[float] = []
    with watched(engine) as waits:
        while len(found) < number:
            waits.clear()
            cycle = worker.lanes[0].dispatcher.cycle()
            if cycle.claimed == 0:
                raise RuntimeError("nothing was claimed although rows are due")
            if cycle.claimed == BATCH:
                found.append(waits.seconds)
    worker.lanes[0].dispatcher.close()
    return found


@contextmanager
def _old_snapshot(engine: sa.Engine) -> Iterator[None]:
    """What a dump does: a transaction that looks at one moment and does not end."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as db:
        db.execute(sa.text("SELECT count(*) FROM outbox_meta"))
        db.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        yield
        db.rollback()


def _processes(report: Report, server: PostgresServer, folder: Path, options: argparse.Namespace) -> None:
    mails = options.messages or 20_000
    bouts = [Bout(contenders.ours(_name(number), number), mails) for number in PROCESSES]
    chosen = {one.name: one for one in contenders.chosen([bout.contender for bout in bouts], options)}
    bouts = [Bout(chosen[bout.name], mails) for bout in bouts if bout.name in chosen]
    if not bouts:
        return
    done = arena.rounds(Arena(server, folder), bouts, options.rounds)
    drained = Report("processes")
    middle = arena.summarise(drained, done)
    best = max(value or 0 for value in middle.values())
    for row in drained.rows:
        kept = ("contender", "msg/s", "cpu us", "postgres us", "MiB", "doubles")
        report.rows.append(
            {"beside": row["contender"], **_shown(row, kept[1:]), "x best": row["msg/s"] / best}
        )
    report.rounds += drained.rounds


def _shown(row: dict[str, Any], kept: tuple[str, ...]) -> dict[str, Any]:
    return {key: row[key] for key in kept}


def _name(number: int) -> str:
    return f"{number} processes" if number > 1 else "one process"
