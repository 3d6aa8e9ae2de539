"""``slow``: a relay far away, 20 ms for each round trip and 10 ms more for each content, and many connections to it.

Everything here is connections and round trips; the processor has nothing to do.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path

from tests.benchmarks import arena, contenders, servers
from tests.benchmarks.arena import Arena, Bout
from tests.benchmarks.report import Report
from tests.support.postgres import PostgresServer

ROUND_TRIP, DOT = 0.020, 0.010
LANES = (1, 8, 16, 32, 64)
PER_LANE = 50


def measure(server: PostgresServer, options: argparse.Namespace) -> Report:
    per_lane = 3 if options.quick else PER_LANE
    peers = 30 if options.quick else options.messages or 1600
    lanes = (2,) if options.quick else LANES
    field = [Bout(contenders.ours(f"{n} lanes", lanes=str(n)), n * per_lane) for n in lanes]
    field += [Bout(one, peers) for one in _peers()]
    chosen = {one.name: one for one in contenders.chosen([bout.contender for bout in field], options)}
    bouts = [Bout(chosen[bout.name], bout.mails) for bout in field if bout.name in chosen]
    with tempfile.TemporaryDirectory(prefix="outbox-bench-") as name:
        ground = Arena(server, Path(name), partial(servers.relay, round_trip=ROUND_TRIP, dot=DOT))
        done = arena.rounds(ground, bouts, options.rounds)
        if options.profile:
            ground.profile(bouts[0], options.profile)
    report = Report("slow")
    middle = arena.summarise(report, done)
    one = middle.get(f"outbox-admin, {lanes[0]} lanes")
    for row in report.rows:
        number = next((n for n in lanes if row["contender"] == f"outbox-admin, {n} lanes"), None)
        row["x n lanes"] = row["msg/s"] / one / number if number and one else None
        del row["x limit"]
    report.notes.append(
        f"A relay with {ROUND_TRIP * 1000:.0f} ms for a round trip and {DOT * 1000:.0f} ms more for the final dot; "
        f"{per_lane} messages a lane, {peers:,} for each peer. Medians of {options.rounds} rounds; contents checked."
    )
    return report


def _peers() -> list[contenders.Contender]:
    """The many connections that each of them can keep open; how many are best was tried."""
    return [
        contenders.django(
            "2 processes x 16 threads", batch="1600", processes="2", connections="16", log_level="1"
        ),
        contenders.django(
            "2 processes x 32 threads", batch="1600", processes="2", connections="32", log_level="1"
        ),
        contenders.django("default"),
        contenders.pgqueuer("2 workers x 32 connections", 2, batch="100", connections="32"),
    ]
