"""What tests start does not outlive them: not a failing test, nor a test run that is ended by TERM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.children import child

CHECKOUT = Path(__file__).resolve().parents[1]
SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
RUN = f"""
import sys
from tests.support.children import child, end_politely_on_term
end_politely_on_term()
with child({SLEEPER!r}) as process:
    print(process.pid, flush=True)
    process.wait()
"""


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_child_ends_with_a_test_that_fails() -> None:
    with pytest.raises(ZeroDivisionError), child(SLEEPER, stdout=subprocess.PIPE) as process:
        raise ZeroDivisionError
    assert process.returncode is not None


def test_a_child_ends_with_a_run_that_is_ended_by_term() -> None:
    with child([sys.executable, "-c", RUN], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid = next(int(line) for line in run.stdout if line.strip().isdigit())
        run.terminate()
        run.wait(timeout=120)
    assert is_gone(pid)
