"""OC-58: a server that loads the console, asks the database over TLS, and only then forks."""

from __future__ import annotations

import sys
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.faults.ground import fresh_ground
from tests.faults.nursery import CHECKOUT, PATIENCE, Nursery
from tests.faults.recorder import Recorder
from tests.faults.tlsfront import TlsFront
from tests.support.certificates import Authority
from tests.support.children import child
from tests.support.ports import HOST, free_port, wait_for_port
from tests.support.postgres import PostgresServer
from tests.support.waiting import until
from tests.web.population import Population

pytestmark = pytest.mark.postgresql

#: The query before the fork: it leaves an open connection, with its TLS session, in the pool.
APPLICATION = """
from outbox_admin import assemble

app = assemble.console()
assert app.test_client().get("/readyz").status_code == 200
"""


@pytest.mark.slow
def test_oc_58_a_preloading_server_with_four_processes_over_tls(
    postgres_server: PostgresServer, postgres_url: str, authority: Authority, tmp_path: Path, nursery: Nursery
) -> None:
    (tmp_path / "preloaded.py").write_text(APPLICATION)
    port = free_port()
    with (
        Recorder() as relay,
        TlsFront(postgres_server.port, authority.good.context()) as front,
        fresh_ground(secure(postgres_url, front, authority), tmp_path, relay.port, nursery) as ground,
        (tmp_path / "log").open("wb") as log,
    ):
        Population(ground.engine, datetime.now(UTC)).user("viewer", "viewer")
        environ = ground.environ(embedded_worker="1", lanes="1", cycle="0.5s")
        options = ["--preload", "--workers", "4", "--bind", f"{HOST}:{port}", "preloaded:app"]
        command = [sys.executable, "-m", "gunicorn", "--chdir", str(tmp_path), *options]
        with child(command, cwd=CHECKOUT, env=environ, stdout=log, stderr=log) as server:
            wait_for_port(port, 60)
            ground.enqueue(200)
            pages: list[int] = []
            done = until(lambda: visited(port, pages) and ground.settled(), seconds=PATIENCE)
            assert done, (tmp_path / "log").read_text()
            server.terminate()
            assert server.wait(60) == 0
        assert set(pages) == {200}
        assert ground.states() == {"sent": 200}
        assert (len(relay.copies), relay.accepted) == (200, 200)
        assert front.secured > 4
    words = (tmp_path / "log").read_text()
    assert "Error" not in words, words
    assert "Traceback" not in words, words


def visited(port: int, pages: list[int]) -> bool:
    with urllib.request.urlopen(f"http://{HOST}:{port}/login", timeout=60) as answer:
        pages.append(answer.status)
    return True


def secure(url: str, front: TlsFront, authority: Authority) -> str:
    """The same database through the door that takes nothing but TLS."""
    trust = {"sslmode": "verify-full", "sslrootcert": str(authority.ca_file)}
    return sa.make_url(url).set(port=front.port, query=trust).render_as_string(hide_password=False)
