"""The ground that the other tests stand on: servers, databases, clock, certificates, browser."""

import os
import smtplib
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest
import sqlalchemy as sa

from tests.support.certificates import Authority, ServerCertificate
from tests.support.clock import FakeClock
from tests.support.databases import disposable_engine
from tests.support.ports import HOST
from tests.support.recycling import Stock
from tests.support.skips import refuse_skip
from tests.support.source import ROOT


def test_the_clock_moves_only_when_told(clock: FakeClock) -> None:
    before = clock.now()
    assert clock.now() == before
    assert clock.advance(minutes=6) - before == timedelta(minutes=6)


def test_each_database_is_migrated_and_empty(engine: sa.Engine) -> None:
    with engine.connect() as db:
        assert db.scalar(sa.text("SELECT count(*) FROM email_outbox")) == 0


@pytest.mark.parametrize("turn", [1, 2])
def test_no_test_sees_the_rows_of_another(engine: sa.Engine, turn: int) -> None:
    with engine.begin() as db:
        db.execute(sa.text("CREATE TABLE only_here (turn INTEGER)"))
    assert "only_here" in sa.inspect(engine).get_table_names()


ALTERATIONS = {
    "a table more": "CREATE TABLE more (number INTEGER)",
    "a table less": "DROP TABLE retry_plan",
    "a table renamed": "ALTER TABLE retry_plan RENAME TO plan",
    "a column renamed": "ALTER TABLE outbox_meta RENAME COLUMN value TO content",
    "an index less": "DROP INDEX ix_email_attempt_outbox_id",
    "a rule lifted": "ALTER TABLE outbox_meta ALTER COLUMN value DROP NOT NULL",
    "another owner's rights": "GRANT SELECT ON outbox_meta TO PUBLIC",
    "how it is stored": "ALTER TABLE outbox_meta SET (fillfactor = 50)",
    "a setting": "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = 99', current_database()); END $$",
    "its version": "UPDATE outbox_alembic_version SET version_num = '0001'",
    "statistics": "ANALYZE outbox_alembic_version",
}


@contextmanager
def lent(stock: Stock) -> Iterator[tuple[str, sa.Connection]]:
    """A database of the stock, and a transaction in it that is committed at the end."""
    with stock.lend() as url, disposable_engine(url) as engine, engine.begin() as db:
        yield url, db


@pytest.mark.postgresql
def test_a_database_comes_back_empty_and_nobody_is_in_it(postgres_stock: Stock) -> None:
    with postgres_stock.lend() as url, disposable_engine(url) as engine:
        other = engine.connect()
        with engine.begin() as db:
            db.execute(sa.text("INSERT INTO outbox_meta VALUES ('name', 'value')"))
        other.execute(sa.text("SELECT count(*) FROM outbox_meta"))
    with lent(postgres_stock) as (again, db):
        assert again == url
        assert db.scalar(sa.text("SELECT count(*) FROM outbox_meta")) == 0


@pytest.mark.postgresql
@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_a_database_that_was_altered_is_lent_to_nobody_else(postgres_stock: Stock, alteration: str) -> None:
    with lent(postgres_stock) as (altered, db):
        db.execute(sa.text(ALTERATIONS[alteration]))
    with lent(postgres_stock) as (other, db):
        assert other != altered
        names = list(db.scalars(sa.text("SELECT datname FROM pg_database")))
    assert sa.make_url(altered).database not in names


@pytest.mark.postgresql
def test_an_empty_database_has_no_table(empty_postgres_url: str) -> None:
    engine = sa.create_engine(empty_postgres_url)
    assert sa.inspect(engine).get_table_names() == []
    engine.dispose()


@contextmanager
def tls_server(certificate: ServerCertificate) -> Iterator[int]:
    """Makes one handshake, whatever comes of it."""
    listener = socket.create_server((HOST, 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                certificate.context().wrap_socket(connection, server_side=True).close()
            except OSError:
                connection.close()

    thread = Thread(target=serve)
    thread.start()
    with listener:
        yield listener.getsockname()[1]
        thread.join(timeout=60)


def handshake(port: int, ca_file: str) -> None:
    context = ssl.create_default_context(cafile=ca_file)
    with (
        socket.create_connection((HOST, port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="localhost"),
    ):
        return


def test_the_good_certificate_is_accepted(authority: Authority) -> None:
    with tls_server(authority.good) as port:
        handshake(port, str(authority.ca_file))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("self_signed", "self-signed certificate"),
        ("expired", "certificate has expired"),
        ("wrong_host", "Hostname mismatch"),
        ("unknown_authority", "unable to get local issuer"),
    ],
)
def test_a_bad_certificate_is_refused_for_its_own_reason(
    authority: Authority, kind: str, reason: str
) -> None:
    with (
        tls_server(getattr(authority, kind)) as port,
        pytest.raises(ssl.SSLCertVerificationError, match=reason),
    ):
        handshake(port, str(authority.ca_file))


@pytest.mark.smtp
def test_the_peer_takes_mail_only_after_tls_and_login(smtp_peer) -> None:
    context = ssl.create_default_context(cafile=smtp_peer.ca_file)
    with smtplib.SMTP("localhost", smtp_peer.port, timeout=60) as client:
        assert client.docmd("MAIL FROM:<a@shop.example>")[0] == 530
        client.starttls(context=context)
        client.ehlo()
        assert client.docmd("MAIL FROM:<a@shop.example>")[0] == 530
        client.login(smtp_peer.username, smtp_peer.password)
        client.sendmail("a@shop.example", ["b@customer.example"], b"Subject: x\r\n\r\n.dot\r\n")
    (received,) = smtp_peer.received
    assert received.content == b"Subject: x\r\n\r\n.dot\r\n"
    assert (received.recipients, received.tls, received.login) == (("b@customer.example",), True, "outbox")


@pytest.mark.smtp
def test_the_peer_refuses_the_wrong_password_and_named_recipients(smtp_peer) -> None:
    smtp_peer.refuse_recipients["gone@customer.example"] = "550 5.1.1 unknown"
    with smtplib.SMTP("localhost", smtp_peer.port, timeout=60) as client:
        client.starttls(context=ssl.create_default_context(cafile=smtp_peer.ca_file))
        with pytest.raises(smtplib.SMTPAuthenticationError):
            client.login(smtp_peer.username, "wrong")
        client.login(smtp_peer.username, smtp_peer.password)
        with pytest.raises(smtplib.SMTPRecipientsRefused, match=r"5\.1\.1"):
            client.sendmail("a@shop.example", ["gone@customer.example"], b"\r\n")


@pytest.mark.browser
def test_the_browser_opens_a_page(page) -> None:
    page.set_content("<h1>ready</h1>")
    assert page.inner_text("h1") == "ready"


def test_a_skip_becomes_a_failure_unless_it_may_be_skipped() -> None:
    def report() -> pytest.TestReport:
        where = ("test_x.py", 1, "Skipped: no server")
        return pytest.TestReport("test_x", ("test_x.py", 1, "x"), {}, "skipped", where, "setup")

    refused, allowed = report(), report()
    refuse_skip(refused, {"postgresql"})
    refuse_skip(allowed, {"may_skip"})
    assert refused.failed
    assert "no server" in str(refused.longrepr)
    assert allowed.skipped


SKIPS = {
    "by its fixture": "@pytest.fixture\ndef server():\n    pytest.skip('none')\ndef test_it(server):\n    pass\n",
    "by itself": "def test_it():\n    pytest.skip('none')\n",
    "by its marker": "@pytest.mark.skipif(True, reason='none')\ndef test_it():\n    pass\n",
    "with its module": "pytest.importorskip('no_such_module')\ndef test_it():\n    pass\n",
}


@pytest.mark.parametrize("kind", SKIPS)
def test_a_run_with_a_skip_of_any_kind_fails_in_ci(tmp_path: Path, kind: str) -> None:
    run = planted(tmp_path, SKIPS[kind], "pytest_make_collect_report, pytest_runtest_makereport")
    assert run.returncode in {1, 2}
    assert b"may not be skipped here" in run.stdout


def test_skips_fail_in_ci_where_the_tests_are_spread_over_processes(tmp_path: Path) -> None:
    run = planted(
        tmp_path, SKIPS["by itself"], "pytest_make_collect_report, pytest_runtest_makereport", "-n", "1"
    )
    assert run.returncode == 1
    assert b"may not be skipped here" in run.stdout


LEAVES = """
import socket, threading
from tests.support import leaks

leaks.PATIENCE = 0.1
kept = []

def test_leaves_a_socket():
    kept.append(socket.socket())

def test_leaves_a_thread():
    kept.append(threading.Event())
    threading.Thread(target=kept[-1].wait, args=(60,), daemon=True).start()

@pytest.fixture(scope="module")
def shared():
    with socket.socket() as used:
        yield used

def test_uses_a_socket_of_others(shared):
    pass
"""


def test_what_a_test_leaves_open_fails_that_test_and_no_other(tmp_path: Path) -> None:
    run = planted(tmp_path, LEAVES, "pytest_fixture_setup, _nothing_stays_open", "-rE")
    assert run.returncode == 1
    failed = [line for line in run.stdout.decode().splitlines() if line.startswith("ERROR ")]
    assert [line.split("::")[1].split(" ")[0] for line in failed] == [
        "test_leaves_a_socket",
        "test_leaves_a_thread",
    ]


def planted(folder: Path, tests: str, hooks: str, *options: str) -> "subprocess.CompletedProcess[bytes]":
    """A run of other tests with these of our hooks, as in CI."""
    (folder / "conftest.py").write_text(f"from tests.conftest import pytest_addoption, {hooks}\n")
    (folder / "test_planted.py").write_text(f"import pytest\n{tests}")
    environment = {**os.environ, "CI": "true", "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder))
    return subprocess.run(
        [*command, "-c", os.devnull, *options, str(folder)], cwd=folder, env=environment, capture_output=True
    )
