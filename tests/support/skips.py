"""A skipped test is a failed test where the machine must be able to run it.

With CI=true or --no-skips every skip counts as a failure, of a test and of a whole module, except
of tests that carry the marker `may_skip`. Locally a skip stays a skip and says how to cure it.
"""

import os

import pytest

ALLOWED = frozenset({"may_skip"})


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"1", "true"}


def strict(config: pytest.Config) -> bool:
    return bool(config.getoption("--no-skips")) or in_ci()


def refuse_skip(report: pytest.TestReport | pytest.CollectReport, markers: set[str]) -> None:
    """Turns the report of a skip into one of a failure; expected failures stay as they are."""
    if not report.skipped or hasattr(report, "wasxfail") or markers & ALLOWED:
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid} may not be skipped here. {reason}"
