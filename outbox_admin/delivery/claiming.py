"""What a lane owns: claiming, marking, holding and releasing rows, each in a short transaction of its own.

A token is drawn before its claim is sent. When the answer was lost, nobody knows which rows it owns: they are
released by their token before anything else is claimed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.crypto.envelope import key_id_of
from outbox_admin.db.store import claims, marks, release
from outbox_admin.db.store.claims import Claim, TurnedAway
from outbox_admin.delivery import standing
from outbox_admin.delivery.express import Express
from outbox_admin.delivery.fleet import Fleet
from outbox_admin.delivery.hand import Hand
from outbox_admin.delivery.opening import Ready
from outbox_admin.delivery.parts import Parts
from outbox_admin.delivery.place import Place

#: How often one claim begins anew for rows that must not be sent now, which it turns away by the hundreds.
TURNS = 100

log = logging.getLogger("outbox_admin.delivery")


class Claiming:
    """Used by one thread. Database errors pass through; :meth:`doubt` follows them."""

    def __init__(self, parts: Parts, place: Place, hand: Hand, fleet: Fleet, express: Express) -> None:
        self._parts = parts
        self._express = express
        self._fleet = fleet
        self._place = place
        self._hand = hand
        self._doubtful: dict[UUID, frozenset[UUID]] = {}

    def batch(self, limit: int, route: str, *, announce: bool = False) -> list[Claim]:
        """At most ``limit`` due rows; fewer means that no more are due, or that others have shut ``route``.

        ``announce``: all of them are to be marked together, which the claim does by itself where it may.
        """
        together = (
            announce and self._parts.templates is None
        )  # a late rendering is stored by a mark of its own
        self.settle()
        token, asked = self._drawn()
        claimed = self._express.claim(limit, route, token=token, announce=together)
        del self._doubtful[token]
        if claimed:
            self._hand.take(token, claimed, leased_from=asked)
            return claimed
        return self._claim(partial(claims.claim_batch, limit=limit, announce=together), route)

    def alone(self, route: str) -> list[Claim]:
        """One row that came back from a lost worker, or none."""
        return self._claim(claims.claim_alone, route)

    def doubt(self, token: UUID, *, but: frozenset[UUID] = frozenset()) -> None:
        """What this token owns is not known; it is released before the next claim.

        ``but`` rows whose results are not recorded: nobody may say that they were not sent.
        """
        self._doubtful[token] = but

    def settle(self) -> None:
        """All of them: the claim whose answer was lost, and the one before, of which the lane may still hold rows."""
        if not self._doubtful:
            return
        with self._parts.engine.begin() as db:
            for token, kept in self._doubtful.items():
                release.release(db, token=token, but=kept)
        self._doubtful.clear()

    @property
    def doubtful(self) -> bool:
        """Whether rows may be ours of which nobody here knows."""
        return bool(self._doubtful)

    def payload(self, claim: Claim) -> bytes | None:
        """A large one did not come along with its claim (E8). None when the row is not ours any more."""
        if claim.payload is not None or not claim.payload_size:
            return claim.payload or b""
        with self._parts.engine.begin() as db:
            return claims.load_payload(db, row_id=claim.id, token=claim.token)

    def mark(self, group: Collection[Ready], route: str) -> list[Ready]:
        """Those that are still ours: from now on they may reach the relay. Renews the lease of all that is held."""
        asked, owned = self._parts.clock.monotonic(), [ready.claim for ready in group]
        aged = self._hand.has_aged(asked)
        rendered = any(ready.rendering is not None for ready in group)
        ours = set() if aged or rendered else set(self._express.mark(owned, route))
        if late := [ready for ready in group if ready.claim.id not in ours]:
            ours |= self._mark(late, renewing=aged)
        if aged:
            self._hand.renewed(asked)
        return [ready for ready in group if self._still_ours(ready, ours)]

    def _mark(self, group: Collection[Ready], *, renewing: bool) -> set[UUID]:
        owned, lease = [ready.claim for ready in group], self._parts.rules.lease
        with self._parts.engine.begin() as db:
            now = self._parts.clock.now()
            for ready in group:
                self._keep_rendering(db, ready, now)
            return marks.mark_handover(db, owned, now=now, lease=lease, renewing=renewing)

    def hold(self, claim: Claim, held: str) -> None:
        """Stamps the row and gives its attempt back."""
        with self._parts.engine.begin() as db:
            release.hold(db, token=claim.token, ids=[claim.id], held=held)
        log.warning("message %s attempt %d -> held (%s)", claim.id, claim.attempt, held)

    def release(self, token: UUID, ids: Collection[UUID]) -> None:
        """Gives rows back untouched."""
        if not ids:
            return
        with self._parts.engine.begin() as db:
            number = release.release(db, token=token, ids=ids)
        log.info("%d messages released", number)

    def _claim(self, ask: Callable[..., list[Claim] | TurnedAway], route: str) -> list[Claim]:
        self.settle()
        for _ in range(TURNS):
            token, asked = self._drawn()
            claimed = self._ask(partial(self._permitted, ask, route), token)
            del self._doubtful[token]
            if not isinstance(claimed, TurnedAway):
                self._hand.take(token, claimed, leased_from=asked)
                return claimed
            log.info("turned away, held, suppressed or superseded: %d", claimed.number)
        return []

    def _drawn(self) -> tuple[UUID, float]:
        """A token, in doubt until the answer is there, and the second from which the lease runs at least."""
        token = self._parts.token()
        self.doubt(token)
        return token, self._parts.clock.monotonic()

    def _permitted(
        self,
        ask: Callable[..., list[Claim] | TurnedAway],
        route: str,
        db: sa.Connection,
        **terms: Any,
    ) -> list[Claim] | TurnedAway:
        return ask(db, **terms) if self._fleet.may_claim(db, route) else []

    def _ask(self, ask: Callable[..., list[Claim] | TurnedAway], token: UUID) -> list[Claim] | TurnedAway:
        rules, worker = self._parts.rules, self._place.worker
        usable = self._parts.ring.usable_ids if rules.unknown_key_grace else None
        with self._parts.engine.begin() as db:
            if not standing.fits(db, name=rules.deployment):
                return []  # the next cycle says why
            now = self._parts.clock.read(db)
            return ask(db, now=now, token=token, worker=worker, lease=rules.lease, usable=usable)

    def _keep_rendering(self, db: sa.Connection, ready: Ready, now: datetime) -> None:
        if ready.rendering is not None:
            kid = key_id_of(ready.rendering) or ""
            marks.store_rendering(db, ready.claim, payload=ready.rendering, key_id=kid, now=now)

    def _still_ours(self, ready: Ready, ours: set[UUID]) -> bool:
        if ready.claim.id in ours:
            return True
        claim = ready.claim
        self._hand.drop(claim.id)
        gone = claim.expires_at is not None and claim.expires_at <= self._parts.clock.now()
        end = "expired" if gone else "not sent: superseded, suppressed, held, or not ours now"
        log.info("message %s attempt %d -> %s", claim.id, claim.attempt, end)
        return False
