"""A command line with settings of its own, over both databases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from outbox_admin.cli import main
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.producer import Outbox

SENDER = "Shop <no-reply@shop.example>"


class Shell:
    """``shell("list", "--json")`` runs a command; its settings are ``environ``."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.environ = environ

    def __call__(self, *arguments: str, given: str | None = None, code: int | None = 0) -> Result:
        """``given`` is standard input. An exit code other than ``code`` fails; None takes any."""
        result = CliRunner().invoke(main, arguments, env=self.environ, input=given)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert code is None or result.exit_code == code, result.output
        return result

    def json(self, *arguments: str, code: int | None = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code).stdout)


@pytest.fixture
def bare_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Development on an empty SQLite file."""
    import os

    for name in [name for name in os.environ if name.startswith("OUTBOX_")]:
        monkeypatch.delenv(name)
    return Shell(
        {
            "OUTBOX_ENV": "test",
            "OUTBOX_DATABASE_URL": f"sqlite:///{tmp_path / 'new.db'}",
            "OUTBOX_KEY_RING": str(tmp_path / "ring.json"),
            "OUTBOX_SENDER": SENDER,
        }
    )


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    made = KeyRing.generate()
    made.write(tmp_path / "ring.json")
    return made


@pytest.fixture
def shell(bare_shell: Shell, database_url: str, ring: KeyRing) -> Shell:
    """With a key ring and a migrated database, once SQLite and once PostgreSQL."""
    return Shell(bare_shell.environ | {"OUTBOX_DATABASE_URL": database_url})


@pytest.fixture
def outbox(ring: KeyRing) -> Outbox:
    return Outbox(keys=ring, sender=SENDER)


@pytest.fixture
def count(engine: sa.Engine) -> Any:
    """``count("audit_entry")``: how many rows a table has."""

    def rows(table: str) -> int:
        with engine.connect() as db:
            found: int = db.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one()
        return found

    return rows
