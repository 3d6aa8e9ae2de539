"""What the lanes of one process share: the call to stop, the tally, and what was learned about keys.

Everything here is safe for several threads. Nothing is stored by this module.
"""

from __future__ import annotations

import threading
from collections import Counter
from enum import StrEnum

from outbox_admin.core import storm
from outbox_admin.core.storm import Unopened
from outbox_admin.db.reads.deployment import COPIED_STATE, PAUSED_STATE
from outbox_admin.delivery.parts import Parts
from outbox_admin.delivery.pauses import Pauses


class Stopping:
    """``asked``: finish what is in hand and claim no more. ``cut``: the grace has passed, what still waits for a relay
    is broken off. ``over``: nobody waits for anything any more.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.cut = threading.Event()
        self.over = threading.Event()


class Halt(StrEnum):
    """Why a worker claims nothing and changes nothing, in the words of its heartbeat."""

    UNSEEN = "active"  #: the database has not yet said which one it is
    COPIED = COPIED_STATE
    PAUSED = PAUSED_STATE


class Tally:
    """Counts by the word of the outcome, and ``error`` for what went wrong in our own house."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, word: str, number: int = 1) -> None:
        with self._lock:
            self._counts[word] += number

    def of(self, *words: str) -> int:
        """The sum over these words."""
        with self._lock:
            return sum(self._counts[word] for word in words)


class Proofs:
    """Key ids with which a payload has been authenticated; a key that is *proven* cannot be wrong material."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._fresh: set[str] = set()

    def learn(self, kids: set[str]) -> None:
        """From the database."""
        with self._lock:
            self._known |= kids

    def add(self, kid: str) -> None:
        """A payload has just been opened with it."""
        if kid in self._known:
            return
        with self._lock:
            self._known.add(kid)
            self._fresh.add(kid)

    def fresh(self) -> set[str]:
        """Those that the database does not know yet; :meth:`stored` follows when it does."""
        with self._lock:
            return set(self._fresh)

    def stored(self, kids: set[str]) -> None:
        with self._lock:
            self._fresh -= kids

    def __contains__(self, kid: str) -> bool:
        return kid in self._known


class Unreadables:
    """Five payloads that nobody can open are theirs; a storm of them is ours, and no more of them are rejected."""

    def __init__(self, *, on: bool) -> None:
        self._on = on
        self._lock = threading.Lock()
        self._seen = Unopened()

    def may_reject(self, *, now: float) -> bool:
        """False: hold the row instead."""
        with self._lock:
            allowed = storm.may_reject(self._seen, now=now)
            self._seen = storm.unreadable(self._seen, now=now)
            return allowed or not self._on

    def readable(self) -> None:
        """A payload was opened."""
        with self._lock:
            self._seen = storm.readable(self._seen)

    @property
    def tripped(self) -> bool:
        return self._on and self._seen.tripped

    def confirm(self) -> None:
        """An operator has looked at what was held."""
        with self._lock:
            self._seen = storm.confirmed()


class Common:
    """One for each worker."""

    def __init__(self, parts: Parts) -> None:
        self.stopping = Stopping()
        #: False while the ring does not fit the database: what it cannot open would be rejected by mistake.
        self.keys_fit = True
        self.halted: Halt | None = None
        self.tally = Tally()
        self.proofs = Proofs()
        clock = parts.clock
        self.pauses = Pauses(on=parts.rules.breaker, now=clock.monotonic, moment=clock.now, roll=parts.roll)
        self.unreadables = Unreadables(on=parts.rules.breaker)
