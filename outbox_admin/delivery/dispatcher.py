"""One cycle of one lane: claim, open, compose, mark, send, classify, decide, record.

Each step is a short transaction of its own or none at all: nothing is open in the database while SMTP talks. What goes
wrong with one row stays with that row; what goes wrong with the database ends the cycle and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import Deferred, Outcome, Rejected
from outbox_admin.db.store.claims import Claim
from outbox_admin.db.store.rows import UNREADABLE
from outbox_admin.delivery.claiming import Claiming
from outbox_admin.delivery.common import Common, Halt
from outbox_admin.delivery.express import Express
from outbox_admin.delivery.faults import describe
from outbox_admin.delivery.fleet import Fleet
from outbox_admin.delivery.hand import Hand
from outbox_admin.delivery.handover import Handover
from outbox_admin.delivery.ledger import Ledger
from outbox_admin.delivery.opening import Desk, Hold, Ready
from outbox_admin.delivery.pace import Pace
from outbox_admin.delivery.parts import Parts
from outbox_admin.delivery.place import Place
from outbox_admin.delivery.turns import Turns
from outbox_admin.delivery.ways import Way, Ways
from outbox_admin.delivery.windows import announced_alone, grouped, windows_of

#: A row that may kill its worker comes last; in a queue that never ends, after so many full claims.
ALONE_EVERY = 10

log = logging.getLogger("outbox_admin.delivery")


@dataclass(frozen=True, slots=True)
class Cycle:
    """``more``: another cycle should follow at once, since a claim came back full, or its way broke and another may do.

    ``paused``: no route may be used.
    """

    claimed: int = 0
    more: bool = False
    paused: bool = False
    failed: bool = False


class Dispatcher:
    """Used by one thread; whoever stops it reaches only its :attr:`hand`."""

    def __init__(self, parts: Parts, common: Common, place: Place) -> None:
        rules = parts.rules
        self._parts = parts
        self._common = common
        self.hand = Hand()
        self._fleet = Fleet(parts, common.pauses, place.worker, place.shard)
        self.ledger = Ledger(parts, common, place, self.hand, self._fleet)
        self._express = Express(parts, place, self._fleet, self.ledger)
        self.claiming = Claiming(parts, place, self.hand, self._fleet, self._express)
        self._desk = Desk(parts.ring, common.proofs, rules.sender or "", parts.templates)
        self._turns = turns = Turns(parts, common.stopping)
        self._ways = Ways(parts, self._fleet, turns, common.stopping)
        self._handover = Handover(parts, common, self._ways, turns, self.claiming, self.ledger, self.hand)
        # With a rate each message waits for its own slot; a mark that covered several would be old by then.
        self._pace = Pace(batch=rules.batch, window=1 if turns.limited else rules.window)
        self._full_cycles = 0

    def cycle(self) -> Cycle:
        """One claim of as many rows as the lane can begin soon; when it came back short, one that travels alone.

        Then the routes that are paused beside the one in use have their turn to be probed. Results may wait for the
        next cycle where that follows at once: its claim takes them along.
        """
        cycle = self._cycle()
        if not (cycle.more and self._express.carries) or self._stopped():
            self.ledger.flush()
        return cycle

    def _cycle(self) -> Cycle:
        if self._stopped() or self._common.halted:
            return Cycle(failed=self._common.halted is Halt.UNSEEN)
        if not self._common.keys_fit:
            return Cycle(failed=True)
        try:
            self.claiming.settle()  # also while no route may be used
            way = self._ways.pick()
            if way is None:
                return Cycle(paused=True)
            cycle = self._batch(way)
            self._full_cycles = self._full_cycles + 1 if cycle.more else 0
            if self._stopped() or self._full_cycles % ALONE_EVERY:
                return cycle
            cycle = self._single(way, cycle)
            if not self._stopped():
                self._ways.look_after_others(way)
            return cycle
        except Exception as error:  # noqa: BLE001 - nothing that happens in a cycle may end the lane
            self._common.tally.add("error")
            log.error("a cycle broke off: %s", describe(error))
            self._break_off()
            return Cycle(failed=True)

    def give_back(self) -> None:
        """At the end: what a lost answer left in our name must not wait for the end of its lease."""
        self.ledger.flush()
        try:
            self.claiming.settle()
        except Exception as error:  # noqa: BLE001 - the lane ends whatever happens here
            log.warning("a claim in doubt waits for the end of its lease: %s", describe(error))

    @property
    def content_begun(self) -> bool:
        """Whether anything of the message in transmission may have reached the relay; asked by whoever cuts it off."""
        return self._turns.begun

    def rest(self) -> None:
        """Nothing to do for a while."""
        self._ways.rest()

    def abort(self) -> None:
        """From another thread: ends what waits for a relay."""
        self._ways.abort()

    def close(self) -> None:
        self._ways.close()

    def _break_off(self) -> None:
        """Results are kept; what was not sent is released as soon as the database answers."""
        if (handover := self.hand.seize()) is not None:
            self.ledger.doubt(handover, Cause(Phase.CONTENT, Kind.UNKNOWN))
        self.hand.empty()
        self.ledger.flush()
        if self.hand.token is not None:
            self.claiming.doubt(self.hand.token, but=self.ledger.unrecorded)

    def _stopped(self) -> bool:
        return self._common.stopping.asked.is_set()

    def _batch(self, way: Way) -> Cycle:
        began = self._parts.clock.monotonic()
        with self._fleet.reserve(way.route, self._pace.size) as room:
            whole = room == self._pace.window == self._parts.rules.batch
            claims = self.claiming.batch(room, way.route, announce=whole) if room else []
            finished = self._work(claims, way) and not self._ways.is_shut(way)
        if finished and room:
            self._pace.note(asked=room, got=len(claims), seconds=self._parts.clock.monotonic() - began)
        seen = len(claims) + self._express.passed_over
        return Cycle(len(claims), more=not finished or 0 < room <= seen)

    def _single(self, way: Way, before: Cycle) -> Cycle:
        self.ledger.flush()
        with self._fleet.reserve(way.route, 1) as room:
            claims = self.claiming.alone(way.route) if room else []
            self._work(claims, way)
        return Cycle(before.claimed + len(claims), more=before.more or bool(claims))

    def _work(self, claims: list[Claim], way: Way) -> bool:
        """False when the way turned out to be broken: the rest was released untouched."""
        if not claims:
            return True
        going = True
        for group, following in self._groups(claims):
            if not going or self._stopped():
                break
            going = self._handover.deliver(group, way, following=following)
            if self._turns.limited or not self._express.carries:
                self.ledger.flush()  # the next slot may be far off: results do not wait for it
            going = going and not self._ways.is_shut(way)
        self.claiming.release(claims[0].token, self.hand.empty())
        return going

    def _groups(self, claims: list[Claim]) -> Iterator[tuple[list[Ready], Ready | None]]:
        """What is marked together, and the message after it where that may be prepared before its turn."""
        windows = list(windows_of(claims, self._pace.window))
        prepared: list[list[Ready]] | None = None
        for window, upcoming in zip_longest(windows, windows[1:]):
            groups = grouped(self._prepared(window)) if prepared is None else iter(prepared)
            if upcoming is None or not self._may_prepare(upcoming):
                prepared = None
                yield from ((group, None) for group in groups)
                continue
            group, prepared = next(groups, []), list(grouped(self._prepared(upcoming)))
            following = prepared[0][0] if prepared else None
            yield group, following if following is None or not following.alone else None

    def _may_prepare(self, window: list[Claim]) -> bool:
        """Before its turn: nothing large, nothing that is rendered late, nothing that waits for a slot of its own."""
        return self._parts.templates is None and not self._turns.limited and not announced_alone(window[0])

    def _prepared(self, claims: Iterable[Claim]) -> Iterator[Ready]:
        for claim in claims:
            started_at, payload = self._parts.clock.now(), self.claiming.payload(claim)
            if payload is None:
                self.hand.drop(claim.id)
                continue
            match self._prepare(claim, payload):
                case Ready() as ready:
                    yield ready
                case Hold(held):
                    if self.hand.drop(claim.id):
                        self.claiming.hold(claim, held)
                case outcome:
                    if self.hand.drop(claim.id):
                        self.ledger.add(claim, outcome, route="", started_at=started_at)

    def _prepare(self, claim: Claim, payload: bytes) -> Ready | Outcome | Hold:
        try:
            return self._passed(self._desk.prepare(claim, payload))
        except Exception as error:  # noqa: BLE001 - one strange row must not stop the others
            self._common.tally.add("error")
            log.error("message %s could not be prepared: %s", claim.id, describe(error))
            return Deferred(Cause(Phase.PREPARE, Kind.UNKNOWN), describe(error))

    def _passed(self, prepared: Ready | Outcome | Hold) -> Ready | Outcome | Hold:
        """Holds back a rejection that is one of too many: then the fault is probably our own."""
        match prepared:
            case Ready():
                self._common.unreadables.readable()
            case Rejected(cause) if cause.kind is Kind.PAYLOAD_UNREADABLE:
                if not self._common.unreadables.may_reject(now=self._parts.clock.monotonic()):
                    return Hold(UNREADABLE)
        return prepared
