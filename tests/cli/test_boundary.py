"""What may be expected to go wrong ends in one sentence and the documented exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
import sqlalchemy as sa

from outbox_admin.cli.boundary import Commands, database_sentence
from outbox_admin.errors import ConfigurationError, IdempotencyConflict, MessageRefused
from tests.cli.conftest import Shell
from tests.support.readme import commands


@pytest.mark.parametrize(
    ("fault", "code", "sentence"),
    [
        (ConfigurationError("OUTBOX_X is wrong; set it."), 78, "OUTBOX_X is wrong; set it."),
        (MessageRefused("to", "is no address"), 1, "to: is no address"),
        (IdempotencyConflict("other recipients"), 1, "other recipients"),
        (PermissionError(13, "Permission denied", "/etc/x"), 2, "The file /etc/x cannot be used"),
        (sa.exc.OperationalError("SELECT secret", {}, Exception("secret")), 2, "The database cannot be used"),
    ],
)
def test_an_expected_fault_is_one_sentence(fault: Exception, code: int, sentence: str) -> None:
    @click.command()
    def fails() -> None:
        raise fault

    group = Commands("main", places={})
    group.get_command = lambda ctx, name: fails  # type: ignore[method-assign]
    from click.testing import CliRunner

    result = CliRunner().invoke(group, ["fails"])
    assert result.exit_code == code
    assert result.stderr.startswith(f"outbox-admin: {sentence}")
    assert result.stderr.count("\n") == 1
    assert "secret" not in result.stderr


def test_who_has_read_enough_of_the_output_gets_no_complaint(shell: Shell) -> None:
    command = "import os, sys; from outbox_admin.cli import main; sys.stdin.read(); main()"
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", command, "db", "sql"],
        env={**os.environ, **shell.environ},
        stdin=subprocess.PIPE,
        stdout=writing,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(writing)
        os.close(reading)
        _, complaint = process.communicate(timeout=120)
    assert complaint == b""


@pytest.mark.parametrize("command", ["show", "retry", "cancel", "explain"])
def test_octets_that_are_no_text_are_wrong_usage(shell: Shell, command: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", "from outbox_admin.cli import main; main()", command, b"\xff\xed\xa0\x80"],
        env={**os.environ, **shell.environ},
        capture_output=True,
        timeout=120,
    )
    assert (result.returncode, result.stderr.splitlines()[-1]) == (
        2,
        b"Error: Argument 2 is not valid UTF-8.",
    )


@pytest.mark.parametrize(
    "command",
    [("show",), ("retry",), ("probe",), ("users", "enable"), ("unhold",), ("hold",), ("list", "--state"), ()],
)
def test_a_long_argument_is_not_repeated_whole(shell: Shell, command: tuple[str, ...]) -> None:
    long = "x" * 51 + "Y" * 5000 + "z" * 30
    complaint = shell(*command, long, code=None).stderr
    assert "x" * 50 + "…" + "z" * 29 in complaint
    assert len(complaint) < 500


def test_an_unexpected_fault_keeps_its_traceback() -> None:
    @click.command()
    def fails() -> None:
        raise ZeroDivisionError

    group = Commands("main", places={})
    group.get_command = lambda ctx, name: fails  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        group.main(["fails"], standalone_mode=False)


def test_a_database_fault_names_class_and_sqlstate_and_nothing_else() -> None:
    class Refusal(Exception):
        sqlstate = "23505"

    fault = sa.exc.IntegrityError("INSERT", {"recipient": "jane"}, Refusal("jane@customer.example"))
    assert database_sentence(fault).startswith("The database cannot be used (Refusal, SQLSTATE 23505);")


def test_every_command_has_help_with_an_example(bare_shell: Shell) -> None:
    for name, _ in commands():
        text = bare_shell(*name.split(), "--help").stdout
        assert f"outbox-admin {name}" in text.partition("Example")[2], name


def test_help_says_the_exit_codes_and_hides_secrets(bare_shell: Shell) -> None:
    bare_shell.environ["OUTBOX_CONSOLE_SECRET"] = "f3JmZ0wq9vB1yqk1mS7w4u8h2nC5xT6a"
    text = bare_shell("--help").stdout
    assert "78 configuration" in text
    assert "f3JmZ0" not in text


def test_settings_that_are_wrong_stop_every_command(bare_shell: Shell) -> None:
    bare_shell.environ["OUTBOX_SMPT_URL"] = "smtp://relay.example"
    result = bare_shell("status", code=78)
    assert result.stderr == (
        "outbox-admin: OUTBOX_SMPT_URL is no setting of outbox-admin; did you mean OUTBOX_SMTP_URL?\n"
    )


def test_a_database_without_tables_is_named_with_its_cure(bare_shell: Shell) -> None:
    assert "outbox-admin db upgrade" in bare_shell("status", code=78).stderr
    assert "outbox-admin db upgrade" in bare_shell("list", code=78).stderr


def test_a_database_that_does_not_answer_is_critical(bare_shell: Shell) -> None:
    bare_shell.environ["OUTBOX_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:9/none"
    assert "The database cannot be used" in bare_shell("status", code=2).stderr


def test_a_file_that_cannot_be_read_is_named(shell: Shell, tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    result = shell("users", "add", "grace", "--password-file", missing, code=2)
    assert result.stderr == f"outbox-admin: The file {missing} cannot be used: No such file or directory.\n"
