"""The tables in docs/ that say which test shows which case and which rule."""

from __future__ import annotations

import pytest

from tests.support import tables

CASES = [number for number in range(1, 66) if number != 63]  # bulk retry of 100,000 is measured, not tested
RULES = range(10, 31)
#: What only one database can meet.
ONE_DATABASE = {"OC-57": "PostgreSQL"}


@pytest.mark.parametrize(
    ("table", "wanted"),
    [("cases", [f"OC-{number:02d}" for number in CASES]), ("rules", [f"E{number}" for number in RULES])],
)
def test_a_table_has_a_line_for_each(table: str, wanted: list[str]) -> None:
    assert [line.id for line in tables.lines_of(table)] == wanted


@pytest.mark.parametrize("table", ["cases", "rules"])
def test_each_line_names_tests_that_exist_and_carry_its_id(table: str) -> None:
    for line in tables.lines_of(table):
        named = {f"{test.file}::{test.name}" for test in tables.tests_of(table, int(line.id[-2:]))}
        assert line.tests, f"{line.id} has no test"
        assert set(line.tests) <= named, f"{line.id}: {sorted(set(line.tests) - named)}"


@pytest.mark.parametrize("table", ["cases", "rules"])
def test_each_line_is_shown_on_both_databases(table: str) -> None:
    every = tables.all_tests()
    for line in tables.lines_of(table):
        ran = tables.told({name for test in line.tests for name in every[test].databases})
        assert (line.id, line.databases, ran) == (line.id, ran, ONE_DATABASE.get(line.id, "both"))


def test_databases_are_found_through_other_fixtures() -> None:
    every = tables.all_tests()
    here = "tests/test_tables.py::test_databases_are_found_through_other_fixtures"
    scene = "tests/cases/test_addresses.py::test_oc_07_an_address_literal_is_refused_as_policy"
    assert every[here].databases == frozenset()
    assert every[scene].databases == {"SQLite", "PostgreSQL"}
