"""What a process does once a cycle beside sending: take rows back, sweep, reload the key ring, keep retention.

Each piece is bounded, has a transaction of its own and fails alone. Nothing here sends or claims.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.db.reads.counts import capped
from outbox_admin.db.store import (
    candidates,
    holds,
    keys,
    lost_keys,
    minutes,
    plans,
    reclaim,
    release,
    retention,
    superseding,
    sweeps,
    unreadable,
    workers,
)
from outbox_admin.db.store.rows import BOUND
from outbox_admin.delivery.common import Common
from outbox_admin.delivery.faults import describe
from outbox_admin.delivery.parts import Parts
from outbox_admin.delivery.standing import Standing
from outbox_admin.errors import ConfigurationError

#: Seconds between two looks for what retention may remove, and rows that one look removes at most.
PURGE_EVERY = 60.0
PURGE_ROWS = 500
#: While mail keeps flowing, retention waits, but not longer than this many seconds.
PURGE_AT_LATEST = 900.0

#: Statements of one round that give back what a lifted hold had kept; the next round goes on.
FREEINGS = 10

log = logging.getLogger("outbox_admin.delivery")

Step = Callable[[sa.Connection, datetime], Any]


class Upkeep:
    """Used by one thread of a process. ``between`` is done before each piece: it may be urgent, and is short."""

    def __init__(
        self,
        parts: Parts,
        common: Common,
        *,
        paused: bool = False,
        between: Callable[[], object] = lambda: None,
    ) -> None:
        self._parts = parts
        self._common = common
        self._between = between
        self._standing = Standing(parts, common, paused=paused)
        self._registered: dict[str, str] | None = None
        common.keys_fit = False
        self._purged_at = parts.clock.monotonic() - PURGE_EVERY
        self._looked_at: UUID | None = None

    def open(self) -> None:
        """Before anything is claimed: the clock, and that this ring is the one that the rows were sealed with.

        Raises :class:`ConfigurationError` for a ring with other material under a known id. A database that is away
        is no reason to stop: the first round does it then.
        """
        if self._may_work():
            self._keep_keys()

    @property
    def opened(self) -> bool:
        """Whether the database has answered and knows this ring's keys."""
        return self._common.keys_fit

    def round(self) -> None:
        """One cycle's work."""
        if not self._may_work():
            return
        self._read_ring()
        rules = self._parts.rules
        for lost in self._do("reclaim", lambda db, now: reclaim.reclaim(db, now=now)) or ():
            text = "message %s try %d -> %s (lease worker_lost %s)"
            log.warning(text, lost.id, lost.tries, lost.state, lost.worker)
        self._do("expire", lambda db, now: sweeps.expire(db, now=now))
        self._give_way()
        self._do("give up", lambda db, now: sweeps.give_up_in_turn(db, now=now, after=rules.give_up_after))
        self._missing_keys(rules.unknown_key_grace)
        self._do("newer formats", lambda db, now: release.restore_newer(db, now=now))
        self._keep_holds()
        self._calm_down()
        self._do("retry plans", lambda db, now: plans.advance(db, now=now))
        self._do("minutes", lambda db, now: minutes.roll_up(db, now=now))
        self._do("workers", lambda db, now: workers.forget_lost(db, now=now))

    def _may_work(self) -> bool:
        """False while the database is a copy, or the worker paused, or neither is known: then nothing is changed."""
        self._do("clock", lambda db, now: self._parts.clock.read(db))
        self._do("deployment", self._standing.look)
        return self._common.halted is None

    def _keep_holds(self) -> None:
        """Ends holds whose time is over, gives back what none keeps any more, stamps what waits under one.

        A claim stamps too; but while a route is paused, nothing is claimed, and the counts would be too small.
        """
        for over in self._do("holds", lambda db, now: holds.end_over(db, now=now)) or ():
            log.info("hold %s (%s) is over", over.id, over.scope)
        for _ in range(FREEINGS):
            if (self._do("freed", lambda db, now: holds.free(db, now=now)) or 0) < BOUND:
                break
        self._do("held", self._stamp)

    @staticmethod
    def _stamp(db: sa.Connection, now: datetime) -> int:
        if not holds.active(db, now=now):
            return 0
        return candidates.turn_away(db, candidates.due(db, now=now, limit=BOUND, usable=None), now=now)

    def _give_way(self) -> None:
        """One step through the waiting rows that a newer message may have replaced."""
        swept = self._do("superseded", lambda db, now: superseding.sweep(db, now=now, after=self._looked_at))
        self._looked_at = None if swept is None else swept.last

    def _missing_keys(self, grace: timedelta) -> None:
        """Rows that this ring does not open: noted, sought for in the ring's file, rejected when it is time."""
        ring = self._parts.ring
        self._do(
            "lost keys", lambda db, now: lost_keys.reject_lost_keys(db, now=now, tombstones=ring.lost_ids)
        )
        if not grace:
            return
        noted = self._do(
            "missing keys", lambda db, now: lost_keys.note_missing_keys(db, now=now, usable=ring.usable_ids)
        )
        if noted:
            ring.seek()
        self._do(
            "grace",
            lambda db, now: lost_keys.reject_after_grace(
                db, now=now, grace=grace, usable=ring.usable_ids, revoked=ring.revoked_ids
            ),
        )

    def _calm_down(self) -> None:
        """After a storm of unreadable payloads: an operator has dealt with those that were held."""
        if not self._common.unreadables.tripped:
            return
        held = self._do("unreadable", lambda db, now: capped(db, unreadable.SET_ASIDE))
        if held is not None and not held.value:
            self._common.unreadables.confirm()

    def purge(self, *, busy: bool) -> None:
        """Retention, in small pieces, when nothing waits to be sent (or has waited for it long enough)."""
        since = self._parts.clock.monotonic() - self._purged_at
        keeping = self._parts.rules.keeping
        if self._common.halted or not keeping.purges or since < (PURGE_AT_LATEST if busy else PURGE_EVERY):
            return
        purged = self._do("retention", self._purge)
        if purged is None or purged.total < PURGE_ROWS:
            self._purged_at = self._parts.clock.monotonic()

    def _purge(self, db: sa.Connection, now: datetime) -> Any:
        keep = self._parts.rules.keeping
        return retention.purge_in_turn(
            db, now=now, keep_payload=keep.payload, keep_done=keep.done, keep_dead=keep.dead, limit=PURGE_ROWS
        )

    def _read_ring(self) -> None:
        if self._parts.ring.refresh():
            log.info("the key ring was read again: %d keys open", len(self._parts.ring.usable_ids))
        try:
            self._keep_keys()
        except ConfigurationError as error:
            self._common.keys_fit = False
            self._common.tally.add("error")
            log.critical("nothing is claimed: %s", error)

    def _keep_keys(self) -> None:
        """Stores what is new about keys: their check values, and which have proved themselves."""
        values, fresh = self._parts.ring.check_values, self._common.proofs.fresh()
        if values != self._registered:
            known = self._do("keys", lambda db, now: self._register(db, values, now))
            if known is None:
                return
            self._common.proofs.learn(known)
            self._registered, self._common.keys_fit = values, True
        if fresh and self._do("proofs", lambda db, now: self._prove(db, fresh, now)):
            self._common.proofs.stored(fresh)

    @staticmethod
    def _register(db: sa.Connection, values: dict[str, str], now: datetime) -> set[str]:
        keys.register(db, values, now=now)
        return keys.proven(db)

    @staticmethod
    def _prove(db: sa.Connection, kids: set[str], now: datetime) -> bool:
        keys.prove(db, sorted(kids), now=now)
        return True

    def _do(self, what: str, step: Step) -> Any:
        """The step's result, or None when it failed: one row that cannot be read must not stop all mail.

        A worker that stops leaves it to the others.
        """
        if self._common.stopping.asked.is_set():
            return None
        self._between()
        try:
            with self._parts.engine.begin() as db:
                return step(db, self._parts.clock.now())
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - the other steps and the lanes go on
            self._common.tally.add("error")
            log.warning("%s: %s", what, describe(error))
            return None
