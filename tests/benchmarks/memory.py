"""``memory``: the most that one worker needs, and what a large attachment adds to it."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from outbox_admin import Attachment, Entry, Message, Outbox
from tests.benchmarks import contenders, mail, measures, servers
from tests.benchmarks.contenders import Place
from tests.benchmarks.report import Report, median, say
from tests.support import databases
from tests.support.postgres import PostgresServer

LARGE = 10 * 2**20


def measure(server: PostgresServer, options: argparse.Namespace) -> Report:
    report = Report("memory")
    size = LARGE // 10 if options.quick else LARGE
    kinds = {
        "20 small messages": [contenders.entry(number) for number in range(20)],
        "one large": [_large(size)],
    }
    found = {name: [_peak(server, entries) for _ in range(options.rounds)] for name, entries in kinds.items()}
    small, large = (median(peaks) or 0 for peaks in found.values())
    for name, peaks in found.items():
        report.rows.append({"worker that sends": name, "MiB": (median(peaks) or 0) / 2**20})
    report.rows.append(
        {"worker that sends": "extra, in sizes of the large one", "MiB": (large - small) / size}
    )
    report.notes.append(
        f"One process, four lanes; the large message has an attachment of {size / 2**20:.0f} MiB."
    )
    return report


def _large(size: int) -> Entry:
    attachment = Attachment("scan.bin", bytes(range(256)) * (size // 256), "application/octet-stream")
    return Entry(
        Message(f"jane@{mail.DOMAIN}", "Your scan", "See below.", attachments=[attachment]), "bench:large"
    )


def _peak(server: PostgresServer, entries: Sequence[Entry]) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="outbox-bench-") as folder,
        servers.sink() as sink,
        databases.fresh_postgres(server, template=databases.TEMPLATE) as url,
    ):
        place = Place(url, sink.port, Path(folder))
        outbox = Outbox(keys=contenders.ring(place.folder), sender=mail.SENDER)
        with databases.disposable_engine(url) as engine, engine.begin() as db:
            outbox.enqueue_many(db, entries)
        worker = contenders.ours("one process")
        log = place.folder / "log"
        used = measures.run(worker.programs(place), sink=sink, postgres=None, log=log)
        if left := worker.left(place):
            raise RuntimeError(f"{left} messages are not sent; see {log}")
    say(f"{used.rss / 2**20:.1f} MiB")
    return used.rss
