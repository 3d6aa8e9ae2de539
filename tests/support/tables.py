"""The tables of docs/cases.md and docs/rules.md: which tests show a case, or a rule, and on which databases.

Read off the source, so that nothing is collected or run. ``python -m tests.support.tables`` writes the last two columns
of both anew; titles and order stay as they are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Fixture -> the databases that a test runs on which asks for it, by itself or through others.
_DATABASES = {
    "database_url": {"SQLite", "PostgreSQL"},
    "sqlite_url": {"SQLite"},
    "sqlite_template": {"SQLite"},
    "postgres_url": {"PostgreSQL"},
    "postgres_server": {"PostgreSQL"},
    "empty_postgres_url": {"PostgreSQL"},
}
_NUMBERS = {
    "cases": re.compile(r"test_oc_(\d\d(?:_\d\d)*)_(?!\d\d)"),
    "rules": re.compile(r"test_e(\d\d(?:_e?\d\d)*)_(?!\d\d_)"),
}
_LINE = re.compile(
    r"\| (?P<id>(?:OC-|E)\d\d) \| (?P<title>[^|]+) \| (?P<databases>[^|]+) \| (?P<tests>[^|]+) \|"
)
_NAME = re.compile(r"`([\w/]+\.py)::(\w+)`")


@dataclass(frozen=True, slots=True)
class Test:
    """One test function and the databases that it runs on."""

    file: str
    name: str
    databases: frozenset[str]

    def __str__(self) -> str:
        return f"`{self.file}::{self.name}`"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table: the id, what it is about, and the names it gives."""

    id: str
    title: str
    databases: str
    tests: list[str]


@cache
def all_tests() -> dict[str, Test]:
    """By ``file::name``."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        fixtures = _fixtures(path.parent) | _fixtures_of(path)
        for function in _functions(path):
            if function.name.startswith("test_"):
                file = path.relative_to(ROOT).as_posix()
                databases = frozenset(_databases(_arguments(function), fixtures, set()))
                found[f"{file}::{function.name}"] = Test(file, function.name, databases)
    return found


def tests_of(table: str, number: int) -> list[Test]:
    """Those named after the case or rule."""
    wanted = f"{number:02d}"
    named = _NUMBERS[table]
    tests = (
        test
        for test in all_tests().values()
        if (match := named.match(test.name)) and wanted in _ids(match[1])
    )
    return sorted(tests, key=lambda test: (not test.databases, test.file, test.name))


def lines_of(table: str) -> list[Line]:
    text = (ROOT / "docs" / f"{table}.md").read_text()
    return [
        Line(
            match["id"],
            match["title"],
            match["databases"],
            ["::".join(name) for name in _NAME.findall(match["tests"])],
        )
        for match in _LINE.finditer(text)
    ]


def told(databases: Iterable[str]) -> str:
    """How the table names them."""
    names = set(databases)
    return "both" if len(names) == 2 else "".join(names) or "none"


def rewritten(table: str) -> str:
    """The page with its last two columns as the tests are now."""

    def line(match: re.Match[str]) -> str:
        tests = tests_of(table, int(match["id"][-2:]))
        shown = [test for test in tests if test.databases] or tests
        databases = told({name for test in tests for name in test.databases})
        return (
            f"| {match['id']} | {match['title']} | {databases} | {'<br>'.join(map(str, shown)) or 'none'} |"
        )

    return _LINE.sub(line, (ROOT / "docs" / f"{table}.md").read_text())


def _ids(numbers: str) -> list[str]:
    return re.findall(r"\d\d", numbers)


def _functions(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.FunctionDef):
            yield node


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _arguments(function: ast.FunctionDef) -> list[str]:
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return [argument.arg for argument in every]


@cache
def _fixtures(folder: Path) -> dict[str, list[str]]:
    """What a test in ``folder`` may ask for: nearer definitions win."""
    above = _fixtures(folder.parent) if folder != ROOT / "tests" else {}
    own = folder / "conftest.py"
    return above | (_fixtures_of(own) if own.exists() else {})


def _fixtures_of(path: Path) -> dict[str, list[str]]:
    return {function.name: _arguments(function) for function in _functions(path) if _is_fixture(function)}


def _is_fixture(function: ast.FunctionDef) -> bool:
    return any("fixture" in ast.unparse(decorator) for decorator in function.decorator_list)


def _databases(names: Iterable[str], fixtures: dict[str, list[str]], seen: set[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        if name in _DATABASES:
            found |= _DATABASES[name]
        elif name not in seen:
            found |= _databases(fixtures.get(name, ()), fixtures, seen | {name})
    return found


if __name__ == "__main__":
    for page in _NUMBERS:
        (ROOT / "docs" / f"{page}.md").write_text(rewritten(page))
