"""The short way of a busy lane to PostgreSQL: results out, the next rows in, by one statement (db/store/round_trip).

Whatever is not plain goes the long way, as does everything on SQLite, behind a pooler, with ``OUTBOX_CLAIM=portable``,
and while a breaker is not closed. That way is always right; this one is only shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.db.engine import DIRECT
from outbox_admin.db.store import round_trip
from outbox_admin.db.store.claims import Claim
from outbox_admin.db.store.round_trip import Answer, Wanted
from outbox_admin.db.store.rows import PORTABLE
from outbox_admin.delivery import standing
from outbox_admin.delivery.fleet import Fleet
from outbox_admin.delivery.ledger import Ledger
from outbox_admin.delivery.parts import Parts
from outbox_admin.delivery.place import Place

#: A lane looks at the clock and at the breakers again after so many seconds; the claim itself is fenced by the latter.
LOOK_EVERY = 1.0


class Express:
    """Used by one thread. Database errors pass through."""

    def __init__(self, parts: Parts, place: Place, fleet: Fleet, ledger: Ledger) -> None:
        self._parts = parts
        self._place = place
        self._fleet = fleet
        self._ledger = ledger
        self._engine = parts.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._looked_at: float | None = None
        portable = parts.engine.get_execution_options().get(PORTABLE)
        self.runs = parts.engine.dialect.name == "postgresql" and not portable
        #: Rows that the last claim passed over, since they must not be sent now.
        self.passed_over = 0

    @property
    def carries(self) -> bool:
        """Whether what is in the ledger may wait for the next claim or mark, which takes it along."""
        return self.runs and self._ledger.plain is not None

    def claim(self, limit: int, route: str, *, token: UUID, announce: bool) -> list[Claim]:
        """Due rows; none also where only the long way can tell."""
        self.passed_over = 0
        accepted = self._ledger.plain
        if not self.runs or accepted is None:
            return []
        rules, place = self._parts.rules, self._place
        gate = route if route in self._fleet.names else None
        usable = self._parts.ring.usable_ids if rules.unknown_key_grace else None
        wanted = Wanted(limit, token, place.worker, rules.lease, usable, announce, gate)
        with self._engine.connect() as db:
            if not self._may_claim(db, route):
                return []
            answer = round_trip.claim(db, accepted, wanted, now=self._parts.clock.now(), shard=place.shard)
        self._carried(answer)
        self.passed_over = answer.barred
        return answer.claims

    def mark(self, owned: Sequence[Claim], route: str) -> frozenset[UUID]:
        """Those whose hand-over is announced now; what is not among them the long way has to look at."""
        accepted = self._ledger.plain
        if not self.runs or accepted is None:
            return frozenset()
        now, lease = self._parts.clock.now(), self._parts.rules.lease
        gate = route if route in self._fleet.names else None
        with self._engine.connect() as db:
            if not self._is_direct(db):
                return frozenset()
            shard = self._place.shard
            answer = round_trip.mark(db, accepted, owned, now=now, lease=lease, route=gate, shard=shard)
        self._carried(answer)
        return answer.marked

    def _carried(self, answer: Answer) -> None:
        self._ledger.carried(answer.recorded, news=answer.news)

    def _is_direct(self, db: sa.Connection) -> bool:
        self.runs = bool(db.info.get(DIRECT))
        return self.runs

    def _may_claim(self, db: sa.Connection, route: str) -> bool:
        if not self._is_direct(db) or not standing.fits(db, name=self._parts.rules.deployment):
            return False
        now = self._parts.clock.monotonic()
        if self._looked_at is not None and now - self._looked_at < LOOK_EVERY:
            return True
        self._parts.clock.read(db)
        if not self._fleet.may_claim(db, route):
            return False
        self._looked_at = now
        return True
