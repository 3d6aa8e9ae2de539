"""Each topic still runs, with a handful of messages and rows. How fast it is, no test says."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as program
from tests.benchmarks import mail, profiling
from tests.support.postgres import PostgresServer

pytestmark = pytest.mark.postgresql


@pytest.fixture
def one_server(
    monkeypatch: pytest.MonkeyPatch, postgres_server: PostgresServer, postgres_template: str
) -> None:
    """That of the tests: another start costs more than all topics."""

    @contextmanager
    def running() -> Iterator[PostgresServer]:
        yield postgres_server

    monkeypatch.setattr(program.servers, "postgres", running)


@pytest.mark.parametrize("topic", program.TOPICS)
@pytest.mark.usefixtures("one_server")
def test_a_topic_runs_and_tells_its_figures_as_a_table_and_as_json(
    topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    assert program.main([topic, "--quick", "--json", str(file)]) == 0
    told = json.loads(file.read_text())
    assert told["command"] == topic
    assert told["rows"]
    first = next(iter(told["rows"][0].values()))
    assert str(first) in capsys.readouterr().out


def test_a_message_that_is_missing_cut_off_or_changed_is_noticed(tmp_path: Path) -> None:
    whole = _dumped(1)
    dump = tmp_path / "taken"
    dump.write_bytes(whole)
    assert mail.check([dump]).complaints(1) == []
    assert mail.check([dump]).complaints(2) == ["1 of 2 messages did not arrive"]
    dump.write_bytes(whole + whole)
    assert mail.check([dump]).doubles == 1
    for spoilt in (
        whole.replace(b"few days", b"few years"),
        whole[: len(whole) // 2],
        whole.replace(b"Rcpt-Args: <customer-1@", b"Rcpt-Args: <customer-2@"),
    ):
        dump.write_bytes(spoilt)
        assert mail.check([dump]).complaints(1)


def _dumped(number: int) -> bytes:
    """As a sink writes it down."""
    to = mail.mail(number).to.encode()
    return b"X-Client-Addr: 127.0.0.1\nX-Rcpt-Args: <%s>\n" % to + mail.sample()


def test_the_profile_counts_a_statement_once_however_many_rows_it_carries() -> None:
    one = "UPDATE t SET a=%(a_1)s::INTEGER WHERE id IN (%(id_1)s::UUID)"
    two = "UPDATE t SET a=%(a_1)s::INTEGER WHERE id IN (%(id_1)s::UUID, %(id_2)s::UUID)"
    assert profiling.plain(one) == profiling.plain(two) == "UPDATE t SET a=? WHERE id IN (?)"
