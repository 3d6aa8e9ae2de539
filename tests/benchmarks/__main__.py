"""The command: ``python -m tests.benchmarks drain``; each topic has its own ``--help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import console, drain, enqueue, memory, pickup, scale, servers, slow
from tests.benchmarks.report import Report
from tests.support.postgres import PostgresServer

Measure = Callable[[PostgresServer, argparse.Namespace], Report]

TOPICS: dict[str, tuple[Measure, str]] = {
    "drain": (drain.measure, "a backlog, worked off by each contender in turn"),
    "pickup": (pickup.measure, "from the commit of a message to the relay's MAIL"),
    "enqueue": (enqueue.measure, "what a message adds to the caller's transaction"),
    "scale": (scale.measure, "claim and record beside millions of rows; one to ten processes"),
    "slow": (slow.measure, "a relay that is far away"),
    "memory": (memory.measure, "the most that a worker needs, and what a large attachment adds"),
    "console": (console.measure, "pages and queries of the console over large tables"),
}


#: Option, what it takes, help.
OPTIONS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("--quick", {"action": "store_true"}, "a few messages of ours alone: only to see that it runs"),
    ("--json", {"type": Path, "metavar": "FILE"}, "write the figures to this file as well"),
    ("--messages", {"type": int}, "how many; each topic has a number of its own"),
    ("--rounds", {"type": int}, "of which the median is given (default 3)"),
    (
        "--rows",
        {"type": int, "default": 1_000_000},
        "pending rows of the large table; 5 times as many are sent",
    ),
    ("--only", {"action": "append", "metavar": "WORD"}, "contenders with this in their name"),
    ("--no-peers", {"action": "store_true"}, "ours alone"),
    ("--no-limit", {"action": "store_true"}, "without smtp-source"),
    ("--unchecked", {"action": "store_true"}, "nothing is written down at the sink"),
    ("--profile", {"type": Path, "metavar": "FOLDER"}, "where our time goes, as files in there"),
    ("--set", {"action": "append", "default": [], "metavar": "NAME=VALUE"}, "a setting of ours"),
)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    topics = parser.add_subparsers(dest="topic", required=True)
    for name, (_, text) in TOPICS.items():
        topic = topics.add_parser(name, help=text, description=text)
        for option, takes, what in OPTIONS:
            topic.add_argument(option, help=what, **takes)
    options = parser.parse_args(given)
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    with servers.postgres() as server:
        TOPICS[options.topic][0](server, options).show(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
