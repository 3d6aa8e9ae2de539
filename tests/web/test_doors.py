"""Which process serves, when Flask's command line loads the console."""

from __future__ import annotations

import click
import pytest
from flask.cli import FlaskGroup, run_command, shell_command

from outbox_admin.web.doors import serves_here


def under(command: click.Command, name: str, **params: object) -> bool:
    with (
        click.Context(FlaskGroup(), info_name="flask") as root,
        click.Context(command, root, name) as context,
    ):
        context.params.update(params)
        return serves_here()


def test_whoever_loads_it_otherwise_serves() -> None:
    assert serves_here()
    with click.Context(click.Command("web"), info_name="web"):
        assert serves_here()


def test_flask_run_serves_unless_it_only_watches_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WERKZEUG_RUN_MAIN", raising=False)
    assert under(run_command, "run", reload=False)
    assert not under(run_command, "run", reload=True)
    monkeypatch.setenv("WERKZEUG_RUN_MAIN", "true")
    assert under(run_command, "run", reload=True)


def test_debugging_reloads_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WERKZEUG_RUN_MAIN", raising=False)
    monkeypatch.setenv("FLASK_DEBUG", "1")
    assert not under(run_command, "run", reload=None)


def test_a_shell_does_not_serve() -> None:
    assert not under(shell_command, "shell")
