"""How the database is opened: the right driver, private files, errors without parameters."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from outbox_admin.db.engine import create, rewritten
from outbox_admin.db.migrations import upgrade
from outbox_admin.errors import ConfigurationError


@pytest.mark.parametrize("url", ["postgres://u@h/db", "postgresql://u@h/db", "postgresql+psycopg://u@h/db"])
def test_every_postgresql_url_means_psycopg(url: str) -> None:
    assert rewritten(url).drivername == "postgresql+psycopg"


def test_other_databases_are_refused_without_the_password() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        create("mysql://root:hunter2@h/db")
    assert "hunter2" not in str(refusal.value)


def test_an_unreadable_url_is_refused_without_its_text() -> None:
    with pytest.raises(ConfigurationError) as refusal:
        create("postgresql//u:hunter2@h")
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "outbox.db"
    engine = create(f"sqlite:///{file}")
    upgrade(engine)
    engine.dispose()
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="missing"):
        create(f"sqlite:///{tmp_path}/missing/outbox.db")


def test_a_database_in_memory_needs_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite://", "sqlite:///:memory:"):
        create(url).dispose()
    assert list(tmp_path.iterdir()) == []


def test_errors_carry_no_parameters(database_url: str) -> None:
    engine = create(database_url)
    with engine.connect() as db, pytest.raises(sa.exc.DBAPIError) as failure:
        db.execute(sa.text("SELECT :address FROM nowhere"), {"address": "jane@example.com"})
    engine.dispose()
    assert "jane" not in str(failure.value)


@pytest.mark.postgresql
def test_statements_are_prepared_where_the_server_itself_answers(postgres_url: str) -> None:
    engine = create(postgres_url)
    with engine.connect() as db:
        for _ in range(3):
            db.execute(sa.text("SELECT :one"), {"one": 1})
        prepared = db.execute(sa.text("SELECT count(*) FROM pg_prepared_statements")).scalar_one()
    engine.dispose()
    assert prepared >= 1


def test_a_second_engine_of_a_process_does_not_give_up_the_locks_of_the_first(tmp_path: Path) -> None:
    """Or the next process that leaves would remove the journal, and everything written later with it."""
    url = f"sqlite:///{tmp_path / 'outbox.db'}"
    first = create(url)
    upgrade(first)
    with first.connect() as staying:
        staying.execute(sa.text("SELECT 1"))
        staying.rollback()
        create(url).dispose()
        visitor = (
            "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT 1 FROM email_outbox')"
        )
        subprocess.run([sys.executable, "-c", f"{visitor}; db.close()", tmp_path / "outbox.db"], check=True)
        assert (tmp_path / "outbox.db-wal").exists()
    first.dispose()
