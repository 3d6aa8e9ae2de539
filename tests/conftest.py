"""The fixtures that every room's tests share; what they stand on is in tests/support.

No fixture here knows a table, a state or a page. What only one room needs is in its own conftest.
"""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
import sqlalchemy as sa

from dev import find_chromium
from tests.support import browser as chromium
from tests.support import children, databases, postgres, skips
from tests.support.certificates import Authority
from tests.support.clock import FakeClock
from tests.support.leaks import Leaks, held
from tests.support.recycling import Stock
from tests.support.smtp_peer import SmtpPeer, running_peer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Its tests stand in modules that are not collected by themselves, and are read before test_contract.py is.
pytest.register_assert_rewrite("tests.contract")

# The time limit of a single example says more about the machine than about the code.
hypothesis.settings.register_profile("outbox", deadline=None, derandomize=skips.in_ci())
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=2000, stateful_step_count=50)
hypothesis.settings.load_profile("outbox")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="a skipped test is a failure (as with CI=true)")


def pytest_configure() -> None:
    children.end_politely_on_term()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if skips.strict(item.config):
        skips.refuse_skip(report, {marker.name for marker in item.iter_markers()})
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if skips.strict(collector.config):
        skips.refuse_skip(report, set())
    return report


LEAKS = Leaks()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    if fixturedef.scope == "function":
        return (yield)
    with LEAKS.keeping():
        return (yield)


@pytest.fixture(autouse=True)
def _nothing_stays_open() -> Iterator[None]:
    """Set up before all others of a test and torn down after them."""
    before = held()
    yield
    left = LEAKS.since(before)
    if left:
        pytest.fail("left open by this test or its fixtures:\n" + "\n".join(left), pytrace=False)


@pytest.fixture
def clock() -> FakeClock:
    """`clock.now()`, `clock.monotonic()`, `clock.advance(minutes=6)`."""
    return FakeClock()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.PostgresServer]:
    """One server per session; skips where no PostgreSQL is installed."""
    binaries = postgres.find_binaries()
    if binaries is None:
        pytest.skip(postgres.NOT_FOUND)
    with postgres.running_postgres(binaries) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres_server: postgres.PostgresServer) -> str:
    return databases.create_template(postgres_server)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("sqlite") / "template.db"
    databases.migrate(databases.sqlite_url(file))
    return file


@pytest.fixture
def empty_postgres_url(postgres_server: postgres.PostgresServer) -> Iterator[str]:
    """A database without a table. Mark the test `postgresql`."""
    with databases.fresh_postgres(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_stock(postgres_server: postgres.PostgresServer, postgres_template: str) -> Iterator[Stock]:
    stock = Stock(postgres_server, postgres_template)
    yield stock
    stock.clear()


@pytest.fixture
def postgres_url(postgres_stock: Stock) -> Iterator[str]:
    """A migrated database. Mark the test `postgresql`."""
    with postgres_stock.lend() as url:
        yield url


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A migrated database in a file."""
    return databases.copy_sqlite(sqlite_template, tmp_path / "outbox.db")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def database_url(request: pytest.FixtureRequest) -> str:
    """A migrated database; the test runs once on SQLite and once on PostgreSQL."""
    names = {"sqlite": "sqlite_url", "postgresql": "postgres_url"}
    url: str = request.getfixturevalue(names[request.param])
    return url


@pytest.fixture
def engine(database_url: str, request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    """An engine over `database_url`, opened as the package opens its own; runs on both databases.

    Marked `long_way`, it takes PostgreSQL for a pooler: a lane needs several statements for what it else does in one.
    """
    with databases.disposable_engine(database_url) as engine:
        if request.node.get_closest_marker("long_way"):
            databases.take_for(engine, direct=False)
        yield engine


@pytest.fixture
def sqlite_engine(sqlite_url: str) -> Iterator[sa.Engine]:
    with databases.disposable_engine(sqlite_url) as engine:
        yield engine


@pytest.fixture
def postgres_engine(postgres_url: str) -> Iterator[sa.Engine]:
    """Mark the test `postgresql`."""
    with databases.disposable_engine(postgres_url) as engine:
        yield engine


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Its `good`, `wrong_host`, `expired`, `self_signed` and `unknown_authority` certificates."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def smtp_peer(authority: Authority) -> Iterator[SmtpPeer]:
    """A foreign server with STARTTLS and AUTH. Mark the test `smtp`."""
    with running_peer(authority.good, authority.ca_file) as peer:
        yield peer


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Chromium, one for each module: while it runs, asyncio.run() is refused in this thread."""
    executable = find_chromium()
    if executable is None:
        pytest.skip(chromium.NOT_FOUND)
    with chromium.running_browser(executable) as browser:
        yield browser


@pytest.fixture
def new_page(browser: "Browser") -> "Iterator[Callable[..., Page]]":
    """Opens a page in a context of its own; takes the options of Playwright's `new_context`."""
    opened = []

    def open_page(**options: object) -> "Page":
        context = browser.new_context(**options)  # type: ignore[arg-type]
        context.set_default_timeout(60_000)
        opened.append(context)
        return context.new_page()

    yield open_page
    for context in opened:
        context.close()


@pytest.fixture
def page(new_page: "Callable[..., Page]") -> "Page":
    """A page in a fresh context. Mark the test `browser`."""
    return new_page(viewport={"width": 1280, "height": 900})
