"""Prints: JSON for programs, aligned columns and sentences for people. Decides nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Any, TypeVar
from uuid import UUID

import click

F = TypeVar("F", bound=Callable[..., Any])
EMPTY = "-"


def json_option(command: F) -> F:
    """Adds ``--json`` as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def print_json(data: object) -> None:
    """Times are ISO 8601 in UTC, ids and enumerations text."""
    click.echo(json.dumps(data, default=_plain, ensure_ascii=False, indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their widest cell; the last one is not padded."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[n]) for line in [list(columns), *cells]) for n in range(len(columns))]
    for line in [[name.upper() for name in columns], *cells]:
        padded = [text.ljust(width) for text, width in zip(line[:-1], widths, strict=False)]
        click.echo("  ".join([*padded, line[-1]]))


def print_facts(facts: Mapping[str, object]) -> None:
    """One ``name  value`` a line; what has no value is left out."""
    known = {name: value for name, value in facts.items() if value not in (None, "", ())}
    width = max((len(name) for name in known), default=0)
    for name, value in known.items():
        click.echo(f"{name.ljust(width)}  {_cell(value)}")


def stamp(moment: datetime | None) -> str:
    """``2026-12-01 08:30:05 UTC``."""
    return EMPTY if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def _cell(value: object) -> str:
    """Nothing that a producer wrote may steer the terminal."""
    if value is None or value == "":
        return EMPTY
    text = stamp(value) if isinstance(value, datetime) else str(value)
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    match value:
        case datetime() | date():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case UUID():
            return str(value)
        case Enum():
            return value.value
        case _:
            raise TypeError(f"{type(value).__name__} has no form in JSON")
