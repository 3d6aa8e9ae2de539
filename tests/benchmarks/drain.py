"""``drain``: a backlog, worked off by each contender in turn, round after round. Messages a second, and ratios."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks import arena, contenders, servers
from tests.benchmarks.arena import Arena, Bout
from tests.benchmarks.contenders import Contender
from tests.benchmarks.report import Report
from tests.support.postgres import PostgresServer

BEST = {"batch": "200", "window": "200", "lanes": "2"}
FIELD: tuple[Contender, ...] = (
    contenders.ours("2 processes, windows of 200", 2, **BEST),
    contenders.ours("one process, windows of 200", **BEST),
    contenders.ours("worker (default command)"),
    contenders.ours("SQLite, windows of 200", on_sqlite=True, **BEST),
    contenders.pgqueuer("2 workers x 1 connection", 2, batch="100", connections="1"),
    contenders.pgqueuer("2 workers x 4 connections", 2, batch="100", connections="4"),
    contenders.django("2 processes, batch 1000", batch="1000", processes="2", log_level="1"),
    contenders.django("default"),
    contenders.by_hand(),
)
LIMIT, BARE = "smtp-source -> smtp-sink", "the same, nothing written down"


def measure(server: PostgresServer, options: argparse.Namespace) -> Report:
    mails = options.messages or (60 if options.quick else 20_000)
    field = FIELD[2:3] if options.quick else FIELD
    bouts = [Bout(one, mails) for one in contenders.chosen(field, options)]
    with tempfile.TemporaryDirectory(prefix="outbox-bench-") as name:
        sink = partial(servers.sink, keep=not options.unchecked)
        ground = Arena(server, Path(name), sink, checked=not options.unchecked)
        done = arena.rounds(ground, bouts, options.rounds, first=lambda: _limits(ground, mails, options))
        if options.profile:
            profile(ground, bouts, options.profile)
    report = Report("drain")
    arena.summarise(report, done, limit=BARE if options.unchecked else LIMIT)
    report.notes.append(f"{mails:,} messages, medians of {options.rounds} rounds.")
    checked = "Nothing was checked but the number." if options.unchecked else "Every content was checked."
    report.notes.append(checked)
    return report


def profile(ground: Arena, bouts: Iterable[Bout], folder: Path) -> None:
    for bout in bouts:
        if isinstance(bout.contender, contenders.Ours):
            ground.profile(bout, folder)


def _limits(ground: Arena, mails: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """What the wire and the sink allow; once more with nothing written down, to see what the writing costs."""
    if shutil.which("smtp-source") is None or options.no_limit:
        return []
    unchecked = Arena(ground.server, ground.folder, partial(servers.sink, keep=False), checked=False)
    fields = {BARE: unchecked} if options.unchecked else {LIMIT: ground, BARE: unchecked}
    return [{"contender": name, "msg/s": one.limit(mails), "peer": False} for name, one in fields.items()]
