"""A console that listens on loopback, for Chromium. It runs on the wall clock: a browser waits by it too."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from playwright.sync_api import Page
from werkzeug.serving import WSGIRequestHandler, make_server

from outbox_admin.core.hold import Scope
from outbox_admin.core.lifecycle import State
from outbox_admin.db import schema
from outbox_admin.db.store import holds, suppressions
from outbox_admin.web import create_app
from tests.web.conftest import SETTINGS
from tests.web.population import PASSWORD, Population

pytestmark = pytest.mark.browser


class Answering(WSGIRequestHandler):
    """Does not wait for ever for a request on a connection that a browser has opened in advance."""

    timeout = 30


@dataclass
class Site:
    """Where it listens, and every request that reached it: (method, path)."""

    url: str
    seen: list[tuple[str, str]] = field(default_factory=list)

    def polls(self) -> int:
        return sum("/_f/" in path for _, path in self.seen)


@pytest.fixture
def here(sqlite_engine: sa.Engine) -> Population:
    population = Population(sqlite_engine, datetime.now(UTC))
    for role in ("viewer", "operator", "admin"):
        population.user(role, role)
    return population


@pytest.fixture
def site(sqlite_engine: sa.Engine, here: Population) -> Iterator[Site]:
    app = create_app(SETTINGS, engine=sqlite_engine)
    found = Site("")

    def listening(environ: dict[str, str], start: Callable[..., object]) -> object:
        found.seen.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        return app.wsgi_app(environ, start)

    server = make_server("127.0.0.1", 0, listening, threaded=True, request_handler=Answering)  # type: ignore[arg-type]
    server.daemon_threads = False  # so that its end waits for a request under way, and for its connection
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def new_page(site: Site, new_page: Callable[..., Page]) -> Callable[..., Page]:
    """Its pages, and their connections, are closed before the site is."""
    return new_page


@pytest.fixture
def enter(site: Site) -> Callable[..., None]:
    """`enter(page, "operator")` signs in by the form."""

    def sign_in(page: Page, name: str = "operator") -> None:
        page.goto(f"{site.url}/login")
        page.fill("[name=name]", name)
        page.fill("[name=password]", PASSWORD)
        page.click("main button")
        page.wait_for_url(f"{site.url}/")

    return sign_in


@pytest.fixture
def furnished(here: Population) -> Population:
    """Something of everything."""
    here.worker(routes=["primary"], redirect_to="test@dev.example")
    here.worker(host="mail-2", routes=["primary"], breakers={"primary": {"kind": "dns", "phase": "connect"}})
    here.worker(host="mail-3", state="paused")
    opened = {
        "opened_at": here.now,
        "next_probe_at": here.now,
        "cause_phase": "auth",
        "cause_kind": "auth_rejected",
    }
    here.insert(schema.outbox_route, name="primary", breaker="open", **opened)
    with here.engine.begin() as db:
        suppressions.add(db, recipient_key="jane@example.com", reason="bounced", who="alice", now=here.now)
        wish = {"scope": Scope.TEMPLATE, "value": "invoice", "reason": "wrong total", "who": "alice"}
        hold = holds.place(db, **wish, until=here.now + timedelta(hours=1), now=here.now)
    here.message(held=f"hold:{hold.hex}")
    here.message(due_at=here.now + timedelta(hours=1), not_before=here.now + timedelta(hours=1))
    here.message("sent", maybe_delivered=True)
    for state in State:
        row = here.message(state)
        here.attempt(row, cause_hint="450 4.2.1 try again later", cause_ref="7f3a9c01d2e4b5a6")
    here.message("pending", held="key:0102030405060708")
    here.messages(2, "failed")
    here.minute(1, "accepted", 20)
    here.minute(2, "deferred", 3)
    here.minute(2, "rejected", 1)
    return here
