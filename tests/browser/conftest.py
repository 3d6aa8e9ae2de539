"""A console that listens on loopback, for Chromium. It runs on the wall clock: a browser waits by it too."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from playwright.sync_api import Page
from werkzeug.serving import make_server

from outbox_admin.web import create_app
from tests.web.conftest import SETTINGS
from tests.web.population import PASSWORD, Population

pytestmark = pytest.mark.browser


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
    for role in ("viewer", "operator"):
        population.user(role, role)
    return population


@pytest.fixture
def site(sqlite_engine: sa.Engine, here: Population) -> Iterator[Site]:
    app = create_app(SETTINGS, engine=sqlite_engine)
    found = Site("")

    def listening(environ: dict[str, str], start: Callable[..., object]) -> object:
        found.seen.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        return app.wsgi_app(environ, start)

    server = make_server("127.0.0.1", 0, listening, threaded=True)  # type: ignore[arg-type]
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


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
    here.worker()
    for state in ("pending", "sending", "sent", "failed", "rejected", "uncertain", "cancelled"):
        row = here.message(state)
        here.attempt(row, cause_hint="450 4.2.1 try again later", cause_ref="7f3a9c01d2e4b5a6")
    here.message("pending", held="key:0102030405060708")
    here.messages(2, "failed")
    here.minute(1, "accepted", 20)
    here.minute(2, "deferred", 3)
    here.minute(2, "rejected", 1)
    return here
