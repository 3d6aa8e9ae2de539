"""Erasing a recipient: what waits for the address is withdrawn, what is done loses the person. Bounded statements.

The message to several recipients names each of them in every row's payload; so the rows beside the person's own lose
theirs too. A row that is being sent is waited for: nobody can call it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from outbox_admin.db.store.rows import BOUND, Database


@dataclass(frozen=True, slots=True)
class Erased:
    """``withdrawn``: own rows that were cancelled; ``siblings``: rows of the same messages to others.

    ``replaced``: own rows that do not name the person any more. ``sending``: rows that are being sent right now, for
    which a later call must come.
    """

    withdrawn: int = 0
    siblings: int = 0
    replaced: int = 0
    sending: int = 0


def erase(db: Database, *, recipient_key: str, mark: str, now: datetime, limit: int = BOUND) -> Erased:
    """One step. Call again, each in a transaction of its own, until nothing is changed and ``sending`` is zero.

    ``mark`` takes the place of the address: ``erased:`` and a keyed hash.
    """
    raise NotImplementedError
