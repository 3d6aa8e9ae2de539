"""OC-57: between the worker and PostgreSQL stands a pooler that keeps nothing from one transaction to the next."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from outbox_admin.db.engine import create
from outbox_admin.web import create_app
from tests.faults.ground import Ground, fresh_ground, scratch
from tests.faults.nursery import Nursery
from tests.faults.pooler import Pooler
from tests.faults.recorder import Recorder
from tests.support.children import child
from tests.support.ports import HOST, free_port, wait_for_port
from tests.support.postgres import PostgresServer, runner
from tests.web.conftest import SETTINGS, Visitor
from tests.web.population import Population

pytestmark = pytest.mark.postgresql


@contextmanager
def double(server: PostgresServer, database: str) -> Iterator[int]:
    with Pooler(server.port, database) as pooler:
        yield pooler.port
        assert pooler.served > 400  # it was really in between


@contextmanager
def pgbouncer(server: PostgresServer, database: str) -> Iterator[int]:
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("no PgBouncer on this machine: Debian's package pgbouncer has it")
    port = free_port()
    with scratch() as folder:
        place = f"{database} = host={HOST} port={server.port} user=postgres"
        lines = [f"{name} = {value}" for name, value in pooling(folder, port).items()]
        (folder / "users").write_text('"postgres" ""\n')
        (folder / "pgbouncer.ini").write_text("\n".join(["[databases]", place, "[pgbouncer]", *lines, ""]))
        folder.chmod(0o755)  # it does not run as root
        with (
            (folder / "log").open("wb") as log,
            child([program, str(folder / "pgbouncer.ini")], stdout=log, stderr=log, **runner()),
        ):
            wait_for_port(port)
            yield port


def pooling(folder: Path, port: int) -> dict[str, str]:
    return {
        "listen_addr": HOST,
        "listen_port": str(port),
        "auth_type": "trust",
        "auth_file": str(folder / "users"),
        "pool_mode": "transaction",
        "default_pool_size": "6",
        "unix_socket_dir": "",
    }


def through(url: str, port: int) -> str:
    """The same database by another door."""
    return sa.make_url(url).set(port=port).render_as_string(hide_password=False)


def pages_until(done: threading.Event, visitor: Visitor) -> list[int]:
    """The console's list, again and again; the status codes."""
    codes: list[int] = []
    while not done.is_set():
        codes.append(visitor.get("/messages").status_code)
    return codes


@pytest.mark.parametrize(
    "between",
    [pytest.param(double, id="double"), pytest.param(pgbouncer, id="PgBouncer", marks=pytest.mark.may_skip)],
)
def test_oc_57_a_transaction_pooler_in_between_changes_nothing(
    between: object,
    postgres_server: PostgresServer,
    postgres_url: str,
    tmp_path: Path,
    nursery: Nursery,
) -> None:
    database = sa.make_url(postgres_url).database
    with (
        Recorder() as relay,
        between(postgres_server, database) as port,  # type: ignore[operator]
        fresh_ground(postgres_url, tmp_path, relay.port, nursery) as ground,
    ):
        url = through(postgres_url, port)
        ground.enqueue(200)
        workers = [ground.start(lanes=2, settings={"database_url": url}) for _ in range(2)]
        codes = browse_while_it_drains(ground, url)
        assert set(codes) == {200}
        assert ground.states() == {"sent": 200}, ground.logs()
        assert {len(copies) for copies in relay.copies.values()} == {1}
        for worker in workers:
            assert "ERROR" not in worker.words()
            assert "WARNING" not in worker.words()


def browse_while_it_drains(ground: Ground, url: str) -> list[int]:
    Population(ground.engine, datetime.now(UTC)).user("viewer", "viewer")
    engine, codes = create(url), list[int]()
    visitor = Visitor(create_app(SETTINGS, engine=engine).test_client())
    assert visitor.sign_in("viewer").status_code == 303
    done = threading.Event()
    browsing = threading.Thread(target=lambda: codes.extend(pages_until(done, visitor)))
    browsing.start()
    try:
        assert ground.settles(), ground.logs()
    finally:
        done.set()
        browsing.join()
        engine.dispose()
    return codes
