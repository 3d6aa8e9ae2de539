"""The README against the product: settings, commands, columns, rules, code that runs, links that lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy

from outbox_admin.config import SETTINGS
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.db.schema import email_outbox
from outbox_admin.demo.relay import Catcher
from tests.support import databases, readme


@pytest.mark.parametrize("name", readme.MADE)
def test_tables_made_from_the_product_are_fresh(name: str) -> None:
    assert readme.part(name) == readme.MADE[name](), "run: python -m tests.support.readme"


def test_every_setting_is_documented_and_every_documented_setting_exists() -> None:
    text = readme.FILE.read_text()
    documented = set(re.findall(r"^\| `(OUTBOX_\w+)`", readme.part("settings"), re.MULTILINE))
    assert documented == {setting.name for setting in SETTINGS}
    files = {f"{setting.name}_FILE" for setting in SETTINGS if setting.secret}
    assert set(re.findall(r"\bOUTBOX_[A-Z0-9_]+\b", text)) <= documented | files


def test_the_table_of_rules_says_what_the_settings_do() -> None:
    stated = {
        cells[0].strip("`"): (cells[1].strip("`"), cells[2].strip("`")) for cells in readme.rows("rules")
    }
    assert stated == {
        setting.name: (setting.default, setting.in_plain)
        for setting in SETTINGS
        if setting.in_plain is not None
    }


def test_each_rule_has_its_reason() -> None:
    assert all(len(cells) == 4 and len(cells[3]) > 60 for cells in readme.rows("rules"))


def test_the_example_puts_a_mail_into_the_outbox_and_a_worker_sends_it(
    tmp_path: Path, sqlite_template: Path
) -> None:
    url = databases.copy_sqlite(sqlite_template, tmp_path / "outbox.db")
    KeyRing.generate().write(tmp_path / "keyring.json")
    example = subprocess.run(
        [sys.executable, "-W", "error", "-c", readme.code("example")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert example.returncode == 0, example.stderr
    with databases.disposable_engine(url) as engine, engine.connect() as db:
        row = db.execute(sa.select(email_outbox)).one()
    assert (row.idempotency_key, row.template_key, row.state) == ("verify:42", "account.verify", "pending")
    with Catcher() as relay:
        drain(tmp_path, relay.port)
        assert relay.messages[0].recipients == ("jane@customer.example",)


def test_the_console_mounts_into_a_flask_application_as_shown(sqlite_url: str) -> None:
    app = Flask("shop")
    app.config["SQLALCHEMY_DATABASE_URI"] = sqlite_url
    db = SQLAlchemy(app)
    exec(readme.code("mount"), {"app": app, "db": db, "secret": b"f3JmZ0wq9vB1yqk1mS7w4u8h2nC5xT6a"})
    assert app.test_client().get("/outbox/healthz").status_code == 200
    with app.app_context():
        db.engine.dispose()


def drain(folder: Path, port: int) -> None:
    """`outbox-admin worker --drain`, as the README says."""
    environ = {
        "OUTBOX_ENV": "development",
        "OUTBOX_SMTP_URL": f"smtp://127.0.0.1:{port}",
        "OUTBOX_SMTP_TLS": "none",
    }
    command = [sys.executable, "-c", "from outbox_admin.cli import main; main()", "worker", "--drain"]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_example_is_about_ten_lines() -> None:
    code = [line for line in readme.code("example").splitlines() if line.strip() and "# ..." not in line]
    assert len(code) <= 10


def test_where_gunicorn_is_shown_the_extra_that_brings_it_is_named() -> None:
    text = readme.FILE.read_text()
    assert "gunicorn " in text
    assert 'pip install "outbox-admin[server]"' in text


def test_links_into_the_checkout_lead_somewhere() -> None:
    text = readme.FILE.read_text()
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target]
    assert [target for target in targets if not (readme.FILE.parent / target).exists()] == []


def test_every_command_in_a_code_block_exists() -> None:
    names = {name for name, _ in readme.commands()}
    words = {name.split()[0] for name in names}
    used = re.findall(r"outbox-admin ([a-z]+(?: [a-z-]+)?)", readme.FILE.read_text())
    assert [each for each in used if each not in names and each.split()[0] not in words] == []
