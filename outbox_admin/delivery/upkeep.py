"""What a process does once a cycle beside sending: take rows back, sweep, reload the key ring, keep retention.

Each piece is bounded, has a transaction of its own and fails alone. Nothing here sends or claims.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads.health import capped
from outbox_admin.db.store import keys, lost_keys, plans, reclaim, release, retention, sweeps, workers
from outbox_admin.db.store.rows import UNREADABLE, in_state, row
from outbox_admin.delivery.common import Common
from outbox_admin.delivery.faults import describe
from outbox_admin.delivery.parts import Parts
from outbox_admin.errors import ConfigurationError

#: Seconds between two looks for what retention may remove, and rows that one look removes at most.
PURGE_EVERY = 60.0
PURGE_ROWS = 500
#: While mail keeps flowing, retention waits, but not longer than this many seconds.
PURGE_AT_LATEST = 900.0

HELD = sa.and_(in_state(State.PENDING), row.held == UNREADABLE)

log = logging.getLogger("outbox_admin.delivery")

Step = Callable[[sa.Connection, datetime], Any]


class Upkeep:
    """Used by one thread of a process."""

    def __init__(self, parts: Parts, common: Common) -> None:
        self._parts = parts
        self._common = common
        self._registered: dict[str, str] | None = None
        common.keys_fit = False
        self._purged_at = parts.clock.monotonic() - PURGE_EVERY

    def open(self) -> None:
        """Before anything is claimed: the clock, and that this ring is the one that the rows were sealed with.

        Raises :class:`ConfigurationError` for a ring with other material under a known id. A database that is away
        is no reason to stop: the first round does it then.
        """
        self._do("clock", lambda db, now: self._parts.clock.read(db))
        self._keep_keys()

    @property
    def opened(self) -> bool:
        """Whether the database has answered and knows this ring's keys."""
        return self._common.keys_fit

    def round(self) -> None:
        """One cycle's work."""
        self._do("clock", lambda db, now: self._parts.clock.read(db))
        self._read_ring()
        rules = self._parts.rules
        for lost in self._do("reclaim", lambda db, now: reclaim.reclaim(db, now=now)) or ():
            text = "message %s try %d -> %s (lease worker_lost %s)"
            log.warning(text, lost.id, lost.tries, lost.state, lost.worker)
        self._do("expire", lambda db, now: sweeps.expire(db, now=now))
        self._do("give up", lambda db, now: sweeps.give_up(db, now=now, after=rules.give_up_after))
        self._missing_keys(rules.unknown_key_grace)
        self._do("newer formats", lambda db, now: release.restore_newer(db, now=now))
        self._calm_down()
        self._do("retry plans", lambda db, now: plans.advance(db, now=now))
        self._do("workers", lambda db, now: workers.forget_lost(db, now=now))

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
        held = self._do("unreadable", lambda db, now: capped(db, HELD))
        if held is not None and not held.value:
            self._common.unreadables.confirm()

    def purge(self, *, busy: bool) -> None:
        """Retention, in small pieces, when nothing waits to be sent (or has waited for it long enough)."""
        since = self._parts.clock.monotonic() - self._purged_at
        keeping = self._parts.rules.keeping
        if not keeping.purges or since < (PURGE_AT_LATEST if busy else PURGE_EVERY):
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
        """The step's result, or None when it failed: one row that cannot be read must not stop all mail."""
        try:
            with self._parts.engine.begin() as db:
                return step(db, self._parts.clock.now())
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - the other steps and the lanes go on
            self._common.tally.add("error")
            log.warning("%s: %s", what, describe(error))
            return None
