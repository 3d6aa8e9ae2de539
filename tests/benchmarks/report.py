"""The results of a command as a table for people and as JSON for whoever keeps them."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass
class Report:
    """``rows`` share their keys; the first column names what was measured. ``notes`` stand below the table."""

    command: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def table(self) -> str:
        columns = list(dict.fromkeys(key for row in self.rows for key in row))
        lines = [columns, *([_text(row.get(column)) for column in columns] for row in self.rows)]
        widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
        shown = [_line(line, widths) for line in lines]
        rule = "| " + " | ".join("-" * width for width in widths) + " |"
        return "\n".join([shown[0], rule, *shown[1:], "", *self.notes])

    def json(self) -> str:
        whole = {
            "command": self.command,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "rows": self.rows,
            "notes": self.notes,
            "rounds": self.rounds,
        }
        return json.dumps(whole, indent=2, default=str)

    def show(self, file: Path | None) -> None:
        print(self.table())
        if file is not None:
            file.write_text(self.json() + "\n")
            print(f"JSON: {file}", file=sys.stderr)


def machine() -> dict[str, Any]:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {"cores": os.cpu_count(), "python": platform.python_version(), "load": load}


def median(values: Iterable[float | None]) -> float | None:
    """Of those that are known."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def say(text: str) -> None:
    """Progress, beside the results."""
    print(text, file=sys.stderr, flush=True)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
    return "| " + " | ".join(padded) + " |"


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case float() if abs(value) >= 100:
            return f"{value:,.0f}"
        case float() if abs(value) >= 10:
            return f"{value:.1f}"
        case float():
            return f"{value:.2f}"
        case int():
            return f"{value:,}"
    return str(value)
