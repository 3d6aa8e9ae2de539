"""What befalls a worker in the middle of its work: its database fails it, or it is killed.

Statements and commits are counted from the beginning of a step. A killed worker does nothing any more, not even what
stands in its `finally` clauses: every further statement of it ends at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from tests.support.databases import commits_itself


class Killed(BaseException):
    """Signal 9: nothing catches it but the world."""


class Kind(StrEnum):
    FAILS = "fails"  #: a statement finds no server
    LOST = "lost"  #: a commit is done, and its answer does not arrive
    KILLED = "killed"  #: at a statement
    KILLED_AFTER = "killed_after"  #: a commit


@dataclass(slots=True)
class Fate:
    """``kind`` befalls the ``after``-th statement or commit of a step."""

    kind: Kind
    after: int


@dataclass(slots=True)
class Actor:
    """A worker in its step."""

    fate: Fate | None = None
    dead: bool = False

    def strikes(self, *kinds: Kind) -> bool:
        if self.fate is None or self.fate.kind not in kinds:
            return False
        self.fate.after -= 1
        return self.fate.after == 0

    def die(self) -> None:
        self.dead = True
        raise Killed


class _Gone(Exception):
    """What a driver raises when its server is away."""


def _lost() -> sa.exc.OperationalError:
    return sa.exc.OperationalError("statement", {}, _Gone())


class Interference:
    """Over one engine. Steps nest: while one worker sends, another may do its own."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self._acting: list[Actor] = []
        sa.event.listen(engine, "before_cursor_execute", self._statement)
        sa.event.listen(engine, "commit", self._commit)
        sa.event.listen(engine, "after_cursor_execute", self._done)

    def end(self) -> None:
        sa.event.remove(self.engine, "before_cursor_execute", self._statement)
        sa.event.remove(self.engine, "commit", self._commit)
        sa.event.remove(self.engine, "after_cursor_execute", self._done)

    @contextmanager
    def step(self, actor: Actor | None) -> Iterator[None]:
        """``None``: somebody to whom nothing happens."""
        self._acting.append(actor or Actor())
        try:
            yield
        finally:
            self._acting.pop()

    def _done(self, db: sa.Connection, *_: Any) -> None:
        """A statement that is a transaction by itself."""
        actor = self._acting[-1] if self._acting else Actor()
        if commits_itself(db) and actor.strikes(Kind.LOST, Kind.KILLED_AFTER):
            self._strike(actor)

    def _statement(self, *_: Any) -> None:
        actor = self._acting[-1] if self._acting else Actor()
        if actor.dead:
            raise Killed
        if actor.strikes(Kind.FAILS):
            raise _lost()
        if actor.strikes(Kind.KILLED):
            actor.die()

    def _commit(self, db: sa.Connection) -> None:
        actor = self._acting[-1] if self._acting else Actor()
        if actor.dead:
            raise Killed
        if actor.strikes(Kind.LOST, Kind.KILLED_AFTER):
            db.connection.cursor().execute("COMMIT")
            self._strike(actor)

    def _strike(self, actor: Actor) -> None:
        if actor.fate is not None and actor.fate.kind is Kind.LOST:
            raise _lost()
        actor.die()
