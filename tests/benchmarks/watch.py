"""What a process waits for in its database: every statement and every commit, as they are run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa


@dataclass(slots=True)
class Waits:
    """``statements`` with their seconds, in order; the commits among them."""

    statements: list[tuple[str, float]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return sum(seconds for _, seconds in self.statements)

    def clear(self) -> None:
        self.statements.clear()


@contextmanager
def watched(engine: sa.Engine) -> Iterator[Waits]:
    """Of all connections of the engine. Threads may take part."""
    waits, began = Waits(), threading.local()

    def before(*_: Any) -> None:
        began.at = time.perf_counter()

    def after(db: sa.Connection, cursor: Any, statement: str, *_: Any) -> None:
        waits.statements.append((statement, time.perf_counter() - began.at))

    dialect: Any = engine.dialect
    commit = dialect.do_commit
    dialect.do_commit = _timed(commit, waits)
    sa.event.listen(engine, "before_cursor_execute", before)
    sa.event.listen(engine, "after_cursor_execute", after)
    try:
        yield waits
    finally:
        sa.event.remove(engine, "before_cursor_execute", before)
        sa.event.remove(engine, "after_cursor_execute", after)
        del dialect.do_commit


def _timed(commit: Callable[[Any], None], waits: Waits) -> Callable[[Any], None]:
    def timed(connection: Any) -> None:
        began = time.perf_counter()
        commit(connection)
        waits.statements.append(("COMMIT", time.perf_counter() - began))

    return timed
