"""The long run, by hand: ``python -m tests.faults.soak --kills 1000 --messages 20000 --database postgresql``.

Workers are real processes, killed with signal 9 at random moments; a killed one is replaced at once, and its lease ends
at once, so that its rows come back under the remaining blows. Exit code 1 when a promise was broken.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from tests.faults.ground import Ground, durable_postgres, fresh_ground, scratch
from tests.faults.nursery import Nursery
from tests.faults.recorder import Recorder
from tests.faults.siege import Findings, Orders, Siege, complaints, judge
from tests.support import databases
from tests.support.postgres import PostgresServer


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.soak", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    for name, default, text in (
        ("kills", 1000, "signals 9 at random moments"),
        ("restarts", 0, "restarts of PostgreSQL at random moments"),
        ("messages", 20000, "messages in the queue at the start"),
        ("workers", 4, "processes at any time"),
        ("lanes", 2, "SMTP connections of each"),
        ("seed", 1, "of the dice that choose moments and victims"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text} (default {default})")
    parser.add_argument("--on-unknown", choices=("resend", "hold"), default="resend")
    parser.add_argument("--window", default="1", help="OUTBOX_WINDOW: a number or auto (default 1)")
    parser.add_argument("--batch", default="20", help="OUTBOX_BATCH (default 20)")
    parser.add_argument(
        "--pause", type=float, default=0.005, help="longest answer to a final dot, in seconds"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args(given)
    if options.restarts and options.database == "sqlite":
        parser.error("--restarts: SQLite has no server; use --database postgresql")
    return options


@contextmanager
def field(options: argparse.Namespace, relay: Recorder) -> Iterator[tuple[Ground, PostgresServer | None]]:
    """A fresh database of the kind asked for, with workers to come."""
    settings = {"window": options.window, "batch": options.batch, "max_attempts": "20", "cycle": "0.5s"}
    with ExitStack() as stack:
        folder, server = stack.enter_context(scratch()), None
        if options.database == "postgresql":
            server = stack.enter_context(durable_postgres())
            url = stack.enter_context(databases.fresh_postgres(server, template=databases.TEMPLATE))
        else:
            url = databases.sqlite_url(folder / "outbox.db")
            databases.migrate(url)
        nursery = stack.enter_context(Nursery())
        yield stack.enter_context(fresh_ground(url, folder, relay.port, nursery, **settings)), server


def run(options: argparse.Namespace) -> tuple[Findings, list[str], float]:
    orders = Orders(
        kills=options.kills,
        restarts=options.restarts,
        messages=options.messages,
        workers=options.workers,
        lanes=options.lanes,
        on_unknown=options.on_unknown,
        seed=options.seed,
    )
    with Recorder(pause=options.pause, seed=options.seed) as relay, field(options, relay) as (ground, server):
        began = time.monotonic()
        siege = Siege(ground, relay, orders, server)
        siege.run()
        seconds = time.monotonic() - began
        found = judge(siege)
        return found, complaints(siege, found), seconds


def report(options: argparse.Namespace, found: Findings, wrong: list[str], seconds: float) -> str:
    per_kill = found.doubles / found.kills if found.kills else 0.0
    what = (
        f"{options.database}, window {options.window}, on_unknown={options.on_unknown}: "
        f"{options.workers} workers of {options.lanes} lanes, {found.messages} messages, "
        f"{found.kills} kills, {options.restarts} restarts, {seconds:.0f} s"
    )
    lines = [
        what,
        f"states      {found.states}",
        f"lost        {found.lost}",
        f"doubles     {found.doubles} ({found.unmarked} not marked), {per_kill * 10_000:.0f} per 10,000 kills",
        f"uncertain   {found.uncertain}",
        f"kills that caught a hand-over  {found.hits} ({found.exposed} hand-overs, at most {found.worst} at once)",
        f"attempts    at most {found.most_attempts}",
        *(f"BROKEN      {text}" for text in wrong),
    ]
    return "\n".join(lines)


def main() -> int:
    options = arguments()
    found, wrong, seconds = run(options)
    print(report(options, found, wrong, seconds))
    figures = {
        **{name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()},
        **asdict(found),
        "seconds": round(seconds, 1),
        "broken": wrong,
    }
    print(json.dumps(figures))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
