"""The contract: one test at least for each promise, figure and rule that the README states, and none for any other.

The tests stand in tests/contract by subject; each says by ``proves`` which lines of the README it holds to.
"""

from __future__ import annotations

import re

import pytest

pytest.register_assert_rewrite("tests.contract")

from tests.contract.fixtures import *  # noqa: E402, F403
from tests.contract.keeping import *  # noqa: E402, F403
from tests.contract.processes import *  # noqa: E402, F403
from tests.contract.producing import *  # noqa: E402, F403
from tests.contract.promises import PROVEN  # noqa: E402
from tests.contract.rules import *  # noqa: E402, F403
from tests.contract.sealing import *  # noqa: E402, F403
from tests.contract.sending import *  # noqa: E402, F403
from tests.support import readme  # noqa: E402


def stated() -> list[str]:
    """Every line of the README that has to be proved, by its label."""
    promises = re.findall(r"^- \*\*(\w+)\*\* ", readme.part("promises"), re.MULTILINE)
    figures = [cells[0] for cells in readme.rows("figures")]
    rules = [cells[0].strip("`") for cells in readme.rows("rules")]
    return promises + figures + rules


def test_every_line_of_the_readme_is_proved_and_every_proof_is_stated() -> None:
    assert sorted(PROVEN) == sorted(stated())


def test_every_proof_is_a_test_of_this_module() -> None:
    here = set(globals())
    assert {test for tests in PROVEN.values() for test in tests} <= here
