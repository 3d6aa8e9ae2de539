"""What one lane holds: the rows that wait in it, and the one whose hand-over is open.

Shared by the lane and by whoever stops it, so each row is taken by exactly one of the two. No database here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from outbox_admin.db.store.claims import Claim

#: A lease is renewed on the way only once it is so many seconds old.
STALE = 30.0


@dataclass(frozen=True, slots=True)
class Open:
    """A hand-over under way: from now on nobody may say that the message was not sent.

    ``since`` and ``until`` are monotonic seconds: when it began, and when it must have ended.
    """

    claim: Claim
    route: str
    started_at: datetime
    since: float
    until: float


class Hand:
    """Used by two threads; every method is one step under one lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[UUID, Claim] = {}
        self._open: Open | None = None
        self.token: UUID | None = None
        #: Monotonic second from which the lease of every row held runs at least (E12).
        self.leased_from = 0.0

    def take(self, token: UUID, claims: Iterable[Claim], *, leased_from: float) -> None:
        """A fresh claim; the lane holds nothing else."""
        with self._lock:
            self.token = token
            self.leased_from = leased_from
            self._waiting = {claim.id: claim for claim in claims}

    def has_aged(self, now: float) -> bool:
        """Whether the lease had better be renewed along with the next statement; each renewal rewrites the rows."""
        return now - self.leased_from >= STALE

    def renewed(self, asked: float) -> None:
        """A statement sent at this monotonic second renewed all that is held."""
        self.leased_from = asked

    def drop(self, row_id: UUID) -> bool:
        """False when somebody else has released it already."""
        with self._lock:
            return self._waiting.pop(row_id, None) is not None

    def begin(self, handover: Open) -> bool:
        """False when the row was released meanwhile: it must not be sent."""
        with self._lock:
            if self._waiting.pop(handover.claim.id, None) is None:
                return False
            self._open = handover
            return True

    def end(self) -> bool:
        """Closes the hand-over. False when its result was already given by whoever stops the lane."""
        with self._lock:
            ended = self._open is not None
            self._open = None
            return ended

    def seize(self) -> Open | None:
        """Takes the open hand-over away; whoever takes it answers for its result."""
        with self._lock:
            taken, self._open = self._open, None
            return taken

    def empty(self) -> list[UUID]:
        """Takes all waiting rows away, to be released."""
        with self._lock:
            ids = list(self._waiting)
            self._waiting = {}
            return ids

    @property
    def open(self) -> Open | None:
        return self._open

    @property
    def count(self) -> int:
        """Rows held, the open one included."""
        with self._lock:
            return len(self._waiting) + (self._open is not None)
