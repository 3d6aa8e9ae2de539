"""Databases that go away in the middle: a statement that finds no server, an answer that is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from tests.support.databases import commits_itself


class Gone(Exception):
    """What a driver raises when its server is away."""


def _lost() -> sa.exc.OperationalError:
    return sa.exc.OperationalError("statement", {}, Gone())


@contextmanager
def failing(engine: sa.Engine, words: str, *, times: int) -> Iterator[list[str]]:
    """The next statements that contain `words` find no server."""
    failed: list[str] = []

    def refuse(db: Any, cursor: Any, statement: str, *others: Any) -> None:
        if words in statement and len(failed) < times:
            failed.append(statement)
            raise _lost()

    sa.event.listen(engine, "before_cursor_execute", refuse)
    try:
        yield failed
    finally:
        sa.event.remove(engine, "before_cursor_execute", refuse)


@contextmanager
def losing_an_answer(engine: sa.Engine, when: Callable[[], bool]) -> Iterator[None]:
    """A transaction is committed, and the connection breaks before its client learns that."""
    lost: list[bool] = []

    def commit(db: sa.Connection) -> None:
        if not lost and when():
            lost.append(True)
            db.connection.cursor().execute("COMMIT")
            raise _lost()

    def done(db: sa.Connection, *_: Any) -> None:
        if commits_itself(db) and not lost and when():
            lost.append(True)
            raise _lost()

    sa.event.listen(engine, "commit", commit)
    sa.event.listen(engine, "after_cursor_execute", done)
    try:
        yield
    finally:
        sa.event.remove(engine, "commit", commit)
        sa.event.remove(engine, "after_cursor_execute", done)
