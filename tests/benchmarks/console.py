"""``console``: every page against an empty table and against a large one, and the slowest statement of each."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from flask.testing import FlaskClient

from outbox_admin.db.engine import create
from outbox_admin.web import WebSettings, create_app
from tests.benchmarks import tables
from tests.benchmarks.report import Report, median, say
from tests.benchmarks.watch import Waits, watched
from tests.support import databases
from tests.support.postgres import PostgresServer
from tests.web.population import PASSWORD, Population
from tests.web.reading import field_of

SETTINGS = WebSettings(
    secret="a secret of the benchmark, long enough", environment="test", secure=False, metrics_token="figures"
)
REQUESTS = 15
#: A handful: what an empty table needs so that every page has a row to show.
FEW = 2
PAGES = (
    "/",
    "/?range=24h",
    "/?range=7d",
    "/_f/overview",
    "/messages",
    "/messages?state=sent",
    "/messages?state=pending&sort=due",
    "/messages?state=pending&sort=attempts&order=desc",
    "/messages?state=failed",
    "/messages?state=cancelled",
    "/messages?overdue=1",
    "/messages?held=1",
    "/messages?doubles=1",
    "/messages?template=order.sent",
    "/messages?template=no.such",
    "/messages?q=sent:1",
    "/messages?q=nothing-begins-so",
    "/messages/{failed}",
    "/messages/{pending}",
    "/dead-letters",
    "/dead-letters/list",
    "/dead-letters/list?state=failed&kind=timeout&phase=rcpt&code=452",
    "/holds",
    "/holds/new",
    "/_f/dead-letters",
    "/_f/messages",
    "/suppressions",
    "/metrics",
    "/readyz",
)


def measure(server: PostgresServer, options: argparse.Namespace) -> Report:
    report = Report("console")
    requests = 1 if options.quick else REQUESTS
    with _console(server, FEW) as small:
        before = {page: small.look(page, requests) for page in PAGES}
    with _console(server, 200 if options.quick else options.rows) as large:
        after = {page: large.look(page, requests) for page in PAGES}
    for page in PAGES:
        report.rows.append(_row(page, before[page], after[page]))
        slowest = after[page]["slowest"]
        report.rounds.append({"page": page, "statement": slowest[0], "ms": slowest[1] * 1000})
    slowest = sorted(report.rounds, key=lambda one: -one["ms"])[:3]
    report.notes += [
        f"slowest: {one['ms']:.1f} ms, {one['page']}: {one['statement'][:300]}" for one in slowest
    ]
    report.notes.append(
        f"Medians of {requests} requests after one to warm up; a statement's time includes the way."
    )
    return report


def _row(page: str, small: dict[str, Any], large: dict[str, Any]) -> dict[str, Any]:
    return {
        "page": page,
        "status": large["status"],
        "small ms": small["ms"],
        "large ms": large["ms"],
        "x": large["ms"] / small["ms"],
        "statements": large["statements"],
        "in database ms": large["database"],
        "slowest ms": large["slowest"][1] * 1000,
    }


class Visitor:
    """An admin that is signed in, and what the database does for each of the pages."""

    def __init__(self, client: FlaskClient, waits: Waits, ids: dict[str, UUID]) -> None:
        self._client = client
        self._waits = waits
        self._ids = ids

    def sign_in(self) -> None:
        form = self._client.get("/login").get_data(as_text=True)
        given = {"csrf": field_of(form, "csrf"), "name": "admin", "password": PASSWORD}
        answer = self._client.post("/login", data=given)
        if answer.status_code != 303:
            raise RuntimeError(f"signing in was answered with {answer.status_code}")

    def look(self, page: str, requests: int) -> dict[str, Any]:
        path = page.format(**self._ids)
        headers = {"Authorization": "Bearer figures"} if page == "/metrics" else {}
        if page.startswith("/_f/"):
            headers |= {"HX-Request": "true", "HX-Current-URL": "http://localhost/"}
        if requests > 1:
            self._once(path, headers)  # to warm up
        looks = [self._once(path, headers) for _ in range(requests)]
        say(f"{page}: {median(one['ms'] for one in looks):.1f} ms")
        middle = {key: median(one[key] for one in looks) for key in ("ms", "database", "statements")}
        slowest = min((one["slowest"] for one in looks), key=lambda found: found[1])
        return middle | {"status": looks[0]["status"], "slowest": slowest}

    def _once(self, path: str, headers: dict[str, str]) -> dict[str, Any]:
        self._waits.clear()
        began = time.perf_counter()
        answer = self._client.get(path, headers=headers)
        answer.get_data()
        seconds = time.perf_counter() - began
        if answer.status_code >= 400:
            raise RuntimeError(f"{path} was answered with {answer.status_code}")
        statements = self._waits.statements
        return {
            "ms": seconds * 1000,
            "status": answer.status_code,
            "database": self._waits.seconds * 1000,
            "statements": len(statements),
            "slowest": max(statements, key=lambda one: one[1], default=("none", 0.0)),
        }


@contextmanager
def _console(server: PostgresServer, pending: int) -> Iterator[Visitor]:
    with databases.fresh_postgres(server, template=databases.TEMPLATE) as url:
        engine = create(url)
        try:
            tables.grow(engine, pending)
            with watched(engine) as waits:
                yield _visitor(engine, waits)
        finally:
            engine.dispose()


def _visitor(engine: sa.Engine, waits: Waits) -> Visitor:
    with engine.begin() as db:
        now = db.execute(sa.text("SELECT now()")).scalar_one()
        some = sa.text("SELECT id FROM email_outbox WHERE state = :state LIMIT 1")
        ids = {state: db.execute(some, {"state": state}).scalar_one() for state in ("failed", "pending")}
    Population(engine, now).user("admin", "admin")
    visitor = Visitor(create_app(SETTINGS, engine=engine).test_client(), waits, ids)
    visitor.sign_in()
    return visitor
