"""Where contenders drain a queue: a filled database for each of them, copied anew for each round, and a sink.

A round is worth something only if every message arrived as it was written: that is looked at here, each time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tests.benchmarks import contenders, mail, measures, servers
from tests.benchmarks.contenders import Contender, Place
from tests.benchmarks.measures import Program, Run
from tests.benchmarks.report import Report, median, say
from tests.support import databases
from tests.support.ports import HOST
from tests.support.postgres import PostgresServer

OpenSink = Callable[[], AbstractContextManager[servers.Sink]]
PROFILER = Path(__file__).with_name("profiling.py")
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Bout:
    """One contender and the number of its messages."""

    contender: Contender
    mails: int

    @property
    def name(self) -> str:
        return self.contender.name

    @property
    def queue(self) -> tuple[str, bool, int]:
        """Those with the same can begin with copies of the same queue."""
        return self.name.partition(",")[0], self.contender.on_sqlite, self.mails


class Arena:
    """``checked``: whether the sink writes everything down, to be read afterwards."""

    def __init__(
        self, server: PostgresServer, folder: Path, sink: OpenSink = servers.sink, *, checked: bool = True
    ) -> None:
        self.server = server
        self.folder = folder
        self._sink = sink
        self._checked = checked
        self._filled: dict[tuple[str, bool, int], str] = {}
        self.log = folder / "log"

    def prepare(self, bout: Bout) -> None:
        """Fills its queue, once."""
        if bout.queue in self._filled:
            return
        say(f"filling the queue of {bout.name}: {bout.mails:,} messages")
        name = f"filled_{next(_numbers)}"
        if bout.contender.on_sqlite:
            url = databases.sqlite_url(self.folder / name)
            databases.migrate(url)
        else:
            ours = isinstance(bout.contender, contenders.Ours)
            template = databases.TEMPLATE if ours else "template1"
            databases.administer(self.server, f"CREATE DATABASE {name} TEMPLATE {template}")
            url = self.server.url(name)
        bout.contender.fill(Place(url, 1, self.folder), bout.mails)
        self._filled[bout.queue] = name

    def round(self, bout: Bout) -> dict[str, Any]:
        """One drain, and what came of it. Raises where a message is missing or not as it was written."""
        with self._sink() as sink, self._copy(bout) as url:
            place = Place(url, sink.port, self.folder)
            used = self._run(bout, place, sink, bout.contender.programs(place))
            if left := bout.contender.left(place):
                raise RuntimeError(f"{bout.name}: {left} messages are not sent; see {self.log}")
            doubles = self._arrived(bout, sink)
        say(f"{bout.name}: {bout.mails / used.seconds:,.0f} messages a second")
        return {
            "contender": bout.name,
            "peer": bout.contender.is_peer,
            **_figures(used, bout),
            "doubles": doubles,
        }

    def profile(self, bout: Bout, folder: Path) -> None:
        """One more drain, under the profiler; its speed is no figure."""
        told = {"BENCH_MESSAGES": str(bout.mails)}
        into = folder / re.sub(r"\W+", "-", bout.name).strip("-")
        with self._sink() as sink, self._copy(bout) as url:
            place = Place(url, sink.port, self.folder)
            programs = [
                Program(
                    [sys.executable, str(PROFILER), str(into / str(number)), *one.command], one.environ | told
                )
                for number, one in enumerate(bout.contender.programs(place))
            ]
            self._run(bout, place, sink, programs)
        say(f"profile: {into}")

    def limit(self, mails: int) -> float:
        """Messages a second of Postfix's own generator, over one to four connections, the best of them."""
        return max(self._generate(mails, sessions) for sessions in (1, 2, 4))

    def _run(self, bout: Bout, place: Place, sink: servers.Sink, programs: Sequence[Program]) -> Run:
        process = None if bout.contender.on_sqlite else self.server.process
        pid = None if process is None else process.pid
        return measures.run(programs, sink=sink, postgres=pid, log=self.log)

    def _generate(self, mails: int, sessions: int) -> float:
        source, octets = self.folder / "message.eml", mail.sample()
        source.write_bytes(octets)
        with self._sink() as sink:
            command = ["smtp-source", "-d", "-N", "-s", str(sessions), "-m", str(mails), "-F", str(source)]
            command += ["-f", mail.SENDER, "-t", f"customer@{mail.DOMAIN}", f"{HOST}:{sink.port}"]
            began = time.monotonic()
            subprocess.run(command, check=True, capture_output=True)
            seconds = time.monotonic() - began
            if self._checked and (whole := mail.check_copies(sink.dumps(), octets)) != mails:
                raise RuntimeError(f"smtp-source sent {mails} messages, {whole} came whole")
        return mails / seconds

    def _arrived(self, bout: Bout, sink: servers.Sink) -> int | None:
        """How many came twice."""
        if sink.kind == "relay":
            servers.stop(sink)
        if not self._checked:
            return None
        arrived = mail.check(sink.dumps())
        if complaints := arrived.complaints(bout.mails):
            raise RuntimeError(f"{bout.name}: {'; '.join(complaints)}")
        return arrived.doubles

    @contextmanager
    def _copy(self, bout: Bout) -> Iterator[str]:
        filled = self._filled[bout.queue]
        if bout.contender.on_sqlite:
            file = self.folder / f"copy-{next(_numbers)}"
            shutil.copyfile(self.folder / filled, file)
            yield databases.sqlite_url(file)
            return
        with databases.fresh_postgres(self.server, template=filled) as url:
            databases.administer(self.server, "CHECKPOINT")
            yield url


def _figures(used: Run, bout: Bout) -> dict[str, Any]:
    """Microseconds of processor time for each message, on each side."""
    each = 1e6 / bout.mails
    return {
        "mails": bout.mails,
        "msg/s": bout.mails / used.seconds,
        "cpu us": used.cpu * each,
        "postgres us": None if bout.contender.on_sqlite else used.postgres_cpu * each,
        "sink us": used.sink_cpu * each,
        "MiB": used.rss / 2**20,
        "start s": used.start,
    }


Rounds = list[list[dict[str, Any]]]
SHOWN = ("cpu us", "postgres us", "sink us", "MiB", "start s", "doubles")


def rounds(
    arena: Arena, bouts: Sequence[Bout], number: int, *, first: Callable[[], list[dict[str, Any]]] = list
) -> Rounds:
    """All contenders in turn, ``number`` times; ``first`` is measured at the head of each round."""
    for bout in bouts:
        arena.prepare(bout)
    done: Rounds = []
    for turn in range(number):
        say(f"round {turn + 1} of {number}")
        done.append([*first(), *(arena.round(bout) for bout in bouts)])
    return done


def summarise(report: Report, done: Rounds, *, limit: str = "") -> dict[str, float | None]:
    """A row for each contender: medians, and the medians of the ratios within each round. Gives the medians."""
    names = [result["contender"] for result in done[0]]
    middle = {name: median(_of(results, name)["msg/s"] for results in done) for name in names}
    peers = [result["contender"] for result in done[0] if result["peer"]]
    best = max(peers, key=lambda name: middle[name] or 0, default="")
    for name in names:
        row: dict[str, Any] = {"contender": name, "msg/s": middle[name]}
        row["x best peer"] = _ratio(done, name, best)
        row["x limit"] = _ratio(done, name, limit)
        row |= {key: median(_of(results, name).get(key) for results in done) for key in SHOWN}
        report.rows.append(row)
    report.rounds += [result for results in done for result in results]
    return middle


def _of(results: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(result for result in results if result["contender"] == name)


def _ratio(done: Rounds, name: str, other: str) -> float | None:
    if other not in [result["contender"] for result in done[0]]:
        return None
    return median(_of(results, name)["msg/s"] / _of(results, other)["msg/s"] for results in done)
