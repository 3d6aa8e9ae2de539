"""The gates: lint, format, types, templates, dependencies, spelling. Each is a tool with its own settings.

The settings are in pyproject.toml; here is only which tools run, over what.
"""

import subprocess
import sys

import pytest

from tests.support.source import ROOT

SOURCES = ("outbox_admin", "tests", "dev.py", "hatch_build.py", "wsgi.py")
GATES = {
    "ruff check": ("ruff", "check", *SOURCES),
    "ruff format": ("ruff", "format", "--check", *SOURCES),
    "mypy": ("mypy",),
    "djlint": ("djlint", "templates", "--lint", "--quiet"),
    "deptry": ("deptry", "outbox_admin"),
    "codespell": ("codespell_lib",),
}


@pytest.mark.parametrize("gate", GATES)
def test_the_gate_is_open(gate: str) -> None:
    command = [sys.executable, "-m", *GATES[gate]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(GATES[gate])}\n{done.stdout}{done.stderr}"
