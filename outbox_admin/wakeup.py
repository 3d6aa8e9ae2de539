"""Where producers and a worker in one process meet: the commit of a mail wakes the worker that waits for it.

Neither knows the other. Nothing of the producer's is kept here but weak references: one listener for each engine that
carries mail while a worker waits, and none where no worker does. A commit is reported as it begins, since SQLAlchemy
tells nobody of its end; whoever is woken looks more than once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import lru_cache
from weakref import WeakSet

import sqlalchemy as sa

Ring = Callable[[], None]
#: The kind of the database and its name. A server goes by many names, and a look in vain costs little: a file is told
#: apart by its path, a database of a server by its own name alone.
Scope = tuple[str, str]

_changing = threading.Lock()
_waiting: tuple[tuple[Scope, Ring], ...] = ()
_heard: WeakSet[sa.Engine] = WeakSet()
_carrying: WeakSet[sa.RootTransaction] = WeakSet()


def register(engine: sa.Engine, ring: Ring) -> Callable[[], None]:
    """From now on ``ring`` is called when mail is committed to this database; gives what ends that.

    In the thread that commits: it returns at once and raises nothing.
    """
    entry = (_scope(engine.url), ring)
    _change(lambda waiting: (*waiting, entry))
    return lambda: _change(lambda waiting: tuple(one for one in waiting if one is not entry))


def at_commit(connection: sa.Connection) -> None:
    """Mail was written over ``connection``: the commit of its outermost transaction rings, a rollback does not."""
    transaction = connection.get_transaction()
    if transaction is None or not _rings(connection):
        return
    _carrying.add(transaction)
    engine = connection.engine
    if engine not in _heard:
        sa.event.listen(engine, "commit", _committing)
        _heard.add(engine)


def _committing(connection: sa.Connection) -> None:
    transaction = connection.get_transaction()
    if transaction is not None and transaction in _carrying:
        _carrying.discard(transaction)
        for ring in _rings(connection):
            ring()


def _rings(connection: sa.Connection) -> list[Ring]:
    waiting = _waiting
    if not waiting:
        return []
    here = _scope(connection.engine.url)
    return [ring for scope, ring in waiting if scope == here]


@lru_cache
def _scope(url: sa.URL) -> Scope:
    kind, name = url.get_backend_name(), url.database or ""
    return kind, os.path.realpath(name) if kind == "sqlite" else name


def _change(to: Callable[[tuple[tuple[Scope, Ring], ...]], tuple[tuple[Scope, Ring], ...]]) -> None:
    global _waiting  # noqa: PLW0603 - replaced as a whole, so that a commit reads it without a lock
    with _changing:
        _waiting = to(_waiting)


def _in_child() -> None:
    """The worker did not come along, nor did a thread that may have held the lock."""
    global _changing, _waiting
    _changing, _waiting = threading.Lock(), ()


os.register_at_fork(after_in_child=_in_child)
