"""How long a producer waits while the tables are upgraded from version 3: ``python -m tests.benchmarks.upgrade``.

On a server of its own with fsync, over many rows, beside a producer that inserts and commits without a pause. Once as
`outbox-admin db upgrade` does it, and once all in one transaction with plain index builds, for comparison.
"""

from __future__ import annotations

import argparse
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import sqlalchemy as sa

from outbox_admin.db import migrations
from outbox_admin.db.engine import create
from tests.db.rows import add
from tests.support.databases import fresh_postgres, upgrade_to
from tests.support.postgres import PostgresServer, find_binaries, running_postgres

DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
FILL = """
    INSERT INTO email_outbox (id, idempotency_key, supersede_key, recipient, recipient_key, created_at, due_at,
                              first_due_at, key_id, payload, payload_size)
    SELECT gen_random_uuid(), 'row:' || n, 'key:' || n, 'jane@example.com', 'jane@example.com', now(), now(), now(),
           '0102030405060708', decode(repeat(md5(n::text), 47), 'hex'), 752
      FROM generate_series(1, :rows) AS n
"""


@dataclass
class Waits:
    """Seconds of each insert with its commit, the longest and how many."""

    longest: float = 0
    count: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def insert_until_ended(self, engine: sa.Engine) -> None:
        while not self.ended.is_set():
            begun = time.perf_counter()
            with engine.begin() as db:
                add(db)
            self.longest = max(self.longest, time.perf_counter() - begun)
            self.count += 1


def in_one_transaction(engine: sa.Engine) -> None:
    """The same statements, as a tool that knows no better runs them."""
    text = migrations.sql(since="0003").replace(" CONCURRENTLY", "")
    with engine.begin() as db:
        for statement in re.sub("(BEGIN|COMMIT);", "", text).split(";\n\n"):
            if statement.strip():
                db.exec_driver_sql(statement)


WAYS: dict[str, Callable[[sa.Engine], object]] = {
    "db upgrade": migrations.upgrade,
    "in one transaction": in_one_transaction,
}


@contextmanager
def producing(engine: sa.Engine) -> Iterator[Waits]:
    waits = Waits()
    thread = threading.Thread(target=waits.insert_until_ended, args=(engine,))
    thread.start()
    try:
        yield waits
    finally:
        waits.ended.set()
        thread.join()


def measure(server: PostgresServer, way: Callable[[sa.Engine], object], rows: int) -> str:
    with fresh_postgres(server) as url:
        engine = create(url)
        upgrade_to("0003", engine)
        with engine.begin() as db:
            db.execute(sa.text(FILL), {"rows": rows})
        with producing(engine) as calm:
            time.sleep(3)
        with producing(engine) as waits:
            begun = time.perf_counter()
            way(engine)
            seconds = time.perf_counter() - begun
        assert migrations.check(engine).ok
        engine.dispose()
    return (
        f"{seconds * 1000:6.0f} ms, {waits.count:5} inserts, longest {waits.longest * 1000:5.0f} ms"
        f" (in 3 s before: {calm.longest * 1000:.0f} ms)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    binaries = find_binaries()
    if binaries is None:
        parser.error("no PostgreSQL found")
    with running_postgres(binaries, **DURABLE) as server:
        for _ in range(asked.rounds):
            for name, way in WAYS.items():
                print(f"{name:20}{measure(server, way, asked.rows)}", flush=True)


if __name__ == "__main__":
    main()
