"""What a worker keeps out of its memory: nothing of the console, of Alembic, of the ORM, of Jinja."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from outbox_admin.db.migrations import REVISIONS, _scripts

PROGRAM = """
import sys
from outbox_admin.cli import main
try:
    main(["worker", "--drain"], standalone_mode=False)
finally:
    heavy = {"alembic", "flask", "flask_sqlalchemy", "jinja2", "werkzeug", "prometheus_client", "sqlalchemy.orm"}
    print("loaded:", sorted(heavy & set(sys.modules)))
"""


def test_a_worker_loads_nothing_that_only_others_need(tmp_path: Path) -> None:
    environ = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environ |= {"OUTBOX_ENV": "development", "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c"]
    subprocess.run(
        [*command, "from outbox_admin.cli import main; main(['init'])"],
        cwd=tmp_path,
        env=environ,
        check=True,
        timeout=60,
        capture_output=True,
    )
    done = subprocess.run(
        [*command, PROGRAM], cwd=tmp_path, env=environ, timeout=60, capture_output=True, text=True
    )
    assert "loaded: []" in done.stdout, done.stdout + done.stderr


def test_the_versions_told_by_file_names_are_those_of_the_migrations() -> None:
    assert list(reversed([one.revision for one in _scripts().walk_revisions()])) == list(REVISIONS)
