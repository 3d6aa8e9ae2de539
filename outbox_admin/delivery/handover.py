"""Connect, mark, send, classify: how a group of composed messages reaches the relay, one after the other.

The connection comes first and the mark directly before MAIL, so that a worker lost while connecting leaves no doubt
behind. From the mark on nobody may say that a message was not sent.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import ChannelFault, Deferred, Outcome, Unknown
from outbox_admin.db.store.claims import Claim
from outbox_admin.delivery.claiming import Claiming
from outbox_admin.delivery.common import Common
from outbox_admin.delivery.envelope import Unsendable
from outbox_admin.delivery.faults import describe
from outbox_admin.delivery.hand import Hand, Open
from outbox_admin.delivery.ledger import Ledger
from outbox_admin.delivery.opening import Ready
from outbox_admin.delivery.parts import HANDOVER_MARGIN, Parts
from outbox_admin.delivery.smtp import OCTETS_PER_SECOND
from outbox_admin.delivery.turns import Turns
from outbox_admin.delivery.ways import Way, Ways

log = logging.getLogger("outbox_admin.delivery")


@dataclass(frozen=True, slots=True)
class Handover:
    """The second half of a lane's cycle. Every row is settled in the ledger, or no longer ours."""

    parts: Parts
    common: Common
    ways: Ways
    turns: Turns
    claiming: Claiming
    ledger: Ledger
    hand: Hand

    def deliver(self, group: list[Ready], way: Way, *, following: Ready | None = None) -> bool:
        """False when the way is broken or the worker stops: the rest of the group was not touched.

        ``following``: what will probably come after the group; its envelope goes along with the last content.
        """
        reachable = self._reach(group, way)
        if not reachable:
            return reachable is not None
        if not self.turns.reserve(way.route) or self._stopped():
            return False
        announced = self._announced(reachable, way)
        for ready, then in zip(announced, [*announced[1:], following], strict=False):
            if self._stopped() or self.ways.is_shut(way) or not self._send(ready, way, then):
                return False
            if self.ledger.ripe:
                self.ledger.flush()
            if self.ways.is_shut(way):
                return False
        return True

    def _announced(self, group: list[Ready], way: Way) -> list[Ready]:
        """Those that are still ours: the hand-over of all of them is marked, if it was not already by their claim."""
        if all(ready.claim.announced and ready.rendering is None for ready in group):
            return group
        return self.claiming.mark(group, way.route)

    def _reach(self, group: list[Ready], way: Way) -> list[Ready] | None:
        """Connects. A row that cannot be carried is settled; what can be is returned, None when the way is shut."""
        for number, ready in enumerate(group):
            started_at = self.parts.clock.now()
            fault = self.ways.connect(way)
            if fault is None:
                return group[number:]
            if self._stopped():
                return None  # cut off by ourselves perhaps: it tells nothing of the relay
            self._settle(ready.claim, fault, way, started_at)
            if self.ways.note(way, fault):
                return None
            if self.ledger.ripe:
                self.ledger.flush()  # renews the lease of the rest: a relay may take long to be unreachable
        return []

    def _send(self, ready: Ready, way: Way, then: Ready | None) -> bool:
        claim, started_at = ready.claim, self.parts.clock.now()
        fault = self.ways.connect(way)
        if fault is not None and self._stopped():
            return False
        if fault is not None:
            self._settle(claim, fault, way, started_at)
            return not self.ways.note(way, fault)
        if claim.expires_at is not None and claim.expires_at <= self.parts.clock.now():
            if self.hand.drop(claim.id):
                self.ledger.expired(claim)
            return True
        if not self._has_time() and not self.claiming.mark([ready], way.route):
            return True
        outcome = self._hand_over(ready, way, then, started_at)
        return outcome is None or not self.ways.note(way, outcome)

    def _hand_over(self, ready: Ready, way: Way, then: Ready | None, started_at: datetime) -> Outcome | None:
        """None when the row was released, before any octet of its content left."""
        claim, now = ready.claim, self.parts.clock.monotonic()
        until = now + self.parts.rules.handover_limit + len(ready.composed.content) / OCTETS_PER_SECOND
        if not self.hand.begin(Open(claim, way.route, started_at, now, until)):
            return None
        self.turns.start()
        outcome: Outcome
        try:
            following = then.composed if then is not None else None
            first_fault_at = claim.channel_fault_at
            outcome = self.ways.deliver(way, ready.composed, then=following, first_fault_at=first_fault_at)
        except Unsendable as error:
            self.common.tally.add("error")
            log.error("message %s was composed wrongly, nothing was sent: %s", claim.id, describe(error))
            outcome = Deferred(Cause(Phase.PREPARE, Kind.UNKNOWN), describe(error))
        except Exception as error:  # noqa: BLE001 - ours to fix; nobody can tell how far it came
            self.common.tally.add("error")
            log.error("message %s broke off in its hand-over: %s", claim.id, describe(error))
            way.session.close()
            outcome = Unknown(Cause(Phase.CONTENT, Kind.UNKNOWN), describe(error))
        if self._ended_by_us(outcome):
            self._give_back(claim)
            return None
        self.ledger.add(claim, outcome, route=way.route, started_at=started_at)
        self.hand.end()  # only now: a result that could not be kept leaves the hand-over open, and that is in doubt
        return outcome

    def _ended_by_us(self, outcome: Outcome) -> bool:
        """Before its content began, by the end of the grace or for want of a send slot: no try of the message's."""
        cut = self.common.stopping.cut.is_set() and isinstance(outcome, Deferred | ChannelFault)
        return cut or self.turns.withheld

    def _give_back(self, claim: Claim) -> None:
        if self.hand.end():
            self.claiming.release(claim.token, [claim.id])

    def _settle(self, claim: Claim, outcome: Outcome, way: Way, started_at: datetime) -> None:
        """For a row whose hand-over never began."""
        if self.hand.drop(claim.id):
            self.ledger.add(claim, outcome, route=way.route, started_at=started_at)

    def _has_time(self) -> bool:
        """Whether a whole hand-over fits into what is left of the lease (E12)."""
        rules, now = self.parts.rules, self.parts.clock.monotonic()
        left = self.hand.leased_from + rules.lease.total_seconds() - now
        return left > rules.handover_limit + HANDOVER_MARGIN

    def _stopped(self) -> bool:
        return self.common.stopping.asked.is_set()
