"""Decide and record: what an outcome changes, and that it really gets written.

A result is the only thing that prevents a second copy. It is kept and written again and again until the database has
taken it, for as long as the process lives; its lane claims and sends nothing meanwhile. Only a result that the database
refuses for what stands in it, even without its free text, waits beside, so that its lane goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum
from typing import assert_never
from uuid import UUID

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.lifecycle import Change, Outcome, State, Unknown, decide
from outbox_admin.db.store import acceptances
from outbox_admin.db.store import results as store
from outbox_admin.db.store.acceptances import Acceptance
from outbox_admin.db.store.claims import Claim
from outbox_admin.db.store.results import Result
from outbox_admin.delivery.common import Common
from outbox_admin.delivery.faults import describe, is_refusal
from outbox_admin.delivery.fleet import Fleet
from outbox_admin.delivery.hand import Hand, Open
from outbox_admin.delivery.parts import Parts
from outbox_admin.delivery.place import Place

#: Results are written at the latest this many seconds after the first of them came in (E11).
FLUSH_AFTER = 0.2
#: Seconds between two tries to reach a database that is away: doubling from the first to the last.
RETRY_FIRST, RETRY_LAST = 0.1, 5.0
#: Seconds until results that the database has refused are offered again.
OFFER_AGAIN = 60.0

log = logging.getLogger("outbox_admin.delivery")


class Answer(Enum):
    """What the database made of results."""

    TAKEN = "taken"
    REFUSED = "refused"  #: for what stands in them; a repetition does not help
    AWAY = "away"  #: nobody answered, or not now


class Ledger:
    """One lane's results on their way into the database; used by one thread."""

    def __init__(self, parts: Parts, common: Common, place: Place, hand: Hand, fleet: Fleet) -> None:
        self._parts = parts
        self._fleet = fleet
        self._common = common
        self._place = place
        self._hand = hand
        self._open: list[Result] = []
        #: What is open, while all of it says no more than that a relay took the message.
        self.plain: list[Acceptance] | None = []
        self._since = 0.0
        self._telling = False
        self._refused: list[Result] = []
        self._refused_at = 0.0
        #: Monotonic second of the last flush that reached the database.
        self.recorded_at = parts.clock.monotonic()

    def add(self, claim: Claim, outcome: Outcome, *, route: str, started_at: datetime) -> Change:
        """Decides what ``outcome`` changes and keeps it for the next flush."""
        rules, now = self._parts.rules, self._parts.clock.now()
        change = decide(outcome, claim.standing, now=now, roll=self._parts.roll(), policy=rules.policy)
        self.put(claim, change, route=route, started_at=started_at)
        return change

    def doubt(self, handover: Open, cause: Cause) -> None:
        """For one that has begun, and of which nobody will learn how it ended."""
        self.add(handover.claim, Unknown(cause), route=handover.route, started_at=handover.started_at)

    def expired(self, claim: Claim) -> None:
        """Its time passed between the claim and the hand-over; no attempt was made."""
        change = Change(State.EXPIRED, "expired", counted=False, cause=Cause(Phase.PREPARE, Kind.EXPIRED))
        self.put(claim, change, route="", started_at=self._parts.clock.now())

    def put(self, claim: Claim, change: Change, *, route: str, started_at: datetime) -> None:
        if not self._open:
            self._since, self.plain = self._parts.clock.monotonic(), []
        if self._common.pauses.on and change.state is not State.SENT:
            self._telling = True
        change, detail = self._sealed(claim, change)
        ended_at = self._parts.clock.now()
        redirected_to = self._parts.redirect_to if route else None
        result = Result(claim, change, detail, route, started_at, ended_at, redirected_to)
        self._open.append(result)
        if self.plain is not None and (acceptance := acceptances.of(result)):
            self.plain.append(acceptance)
        else:
            self.plain = None

    @property
    def waiting(self) -> int:
        """Results that are not recorded yet."""
        return len(self._open)

    @property
    def unrecorded(self) -> frozenset[UUID]:
        """Rows whose results the database has not taken, those that it refused included."""
        return frozenset(result.claim.id for result in (*self._open, *self._refused))

    @property
    def ripe(self) -> bool:
        """Whether the oldest result has waited long enough, or one tells the others something of the route."""
        waited = self._parts.clock.monotonic() - self._since >= FLUSH_AFTER
        return bool(self._open) and (waited or self._telling)

    def carried(self, recorded: int, *, news: bool) -> None:
        """A statement of this lane took the plain results along; those of them that were not ours are looked at."""
        if recorded < len(self._open):
            self.flush()
            return
        told, self._open, self.plain = self._open, [], []
        self.recorded_at = self._parts.clock.monotonic()
        for result in told:
            self._tell(result, ours=True)
        if told and (news or self._common.pauses.has_news(told[-1].route)):
            self._tell_the_route(told)

    def _tell_the_route(self, results: Sequence[Result]) -> None:
        """That it took them; where this fails, the next ones say so."""
        try:
            with self._parts.engine.begin() as db:
                verdicts = self._fleet.judge(db, results, now=self._parts.clock.now())
        except Exception as error:  # noqa: BLE001 - the results are recorded
            log.warning("a route was not told of %d acceptances: %s", len(results), describe(error))
            return
        self._fleet.learn(verdicts)

    def flush(self) -> bool:
        """Writes all results, however long that takes. False only when the process ends before it could."""
        self._offer_again()
        pause = RETRY_FIRST
        while self._open and not self._write():
            if self._common.stopping.over.wait(pause):
                return False
            pause = min(pause * 2, RETRY_LAST)
        return True

    def _write(self) -> bool:
        """False while the database is away."""
        match self._ask(self._open):
            case Answer.TAKEN:
                self._open, self.plain, self._telling = [], [], False
                return True
            case Answer.REFUSED:
                return all(self._write_alone(result) for result in tuple(self._open))
            case Answer.AWAY:
                return False
            case other:
                assert_never(other)

    def _write_alone(self, result: Result) -> bool:
        """As it is, then without its free text, so that one strange word keeps neither its lane nor the others.

        The breaker does not hear of it: what the database refuses may stand there as well, and the result matters more.
        """
        for version in (result, bare(result)):
            answer = self._ask([version], judged=False)
            if answer is Answer.AWAY:
                return False
            if answer is Answer.TAKEN:
                break
        else:
            self._refused.append(result)
            self._refused_at = self._parts.clock.monotonic()
            log.error("message %s: the database refuses its result, which waits", result.claim.id)
        self._open.remove(result)
        return True

    def _offer_again(self) -> None:
        """What was refused may be taken later: after an upgrade of the tables, for one."""
        if self._refused and self._parts.clock.monotonic() - self._refused_at >= OFFER_AGAIN:
            self._open, self._refused, self.plain = [*self._refused, *self._open], [], None

    def _ask(self, results: Sequence[Result], *, judged: bool = True) -> Answer:
        asked, now, place = self._parts.clock.monotonic(), self._parts.clock.now(), self._place
        lease = self._parts.rules.lease if self._hand.has_aged(asked) else None
        try:
            with self._parts.engine.begin() as db:
                ours = store.record(db, results, now=now, worker=place.worker, shard=place.shard, lease=lease)
                verdicts = self._fleet.judge(db, results, now=now) if judged else []
        except Exception as error:  # noqa: BLE001 - whatever it is, the result must not be lost
            self._common.tally.add("error")
            log.warning("%d results wait to be recorded: %s", len(results), describe(error))
            return Answer.REFUSED if is_refusal(error) else Answer.AWAY
        if lease is not None:
            self._hand.renewed(asked)
        self._fleet.learn(verdicts)
        self.recorded_at = self._parts.clock.monotonic()
        for result in results:
            self._tell(result, ours=result.claim.id in ours)
        return Answer.TAKEN

    def _sealed(self, claim: Claim, change: Change) -> tuple[Change, bytes | None]:
        """Raw text leaves the process only sealed; what stays in clear is its keyed fingerprint."""
        if not change.raw:
            return change, None
        if change.cause is None:
            return replace(change, raw=""), None
        ring, cause, detail = self._parts.ring, change.cause, None
        try:
            cause = replace(cause, ref=ring.fingerprint(change.raw))
            if self._parts.rules.error_detail:
                detail = ring.seal_detail(change.raw, row_id=claim.id, attempt=claim.tries)
        except Exception as error:  # noqa: BLE001 - the result matters, its text does not
            log.error(
                "message %s: its error text cannot be sealed, it is dropped: %s", claim.id, describe(error)
            )
        return replace(change, cause=cause, raw=""), detail

    def _tell(self, result: Result, *, ours: bool) -> None:
        claim, change = result.claim, result.change
        self._common.tally.add(change.outcome)
        if ours:
            log.info("message %s attempt %d -> %s", claim.id, claim.attempt, story(change))
        else:
            text = "message %s attempt %d: %s came too late; the row had been taken back"
            log.warning(text, claim.id, claim.attempt, change.outcome)


def bare(result: Result) -> Result:
    """The same change without any word that came from outside."""
    change, cause = result.change, result.change.cause
    plain = None if cause is None else Cause(cause.phase, cause.kind, cause.code)
    return replace(result, change=replace(change, cause=plain, provider_id=None), detail=None)


def story(change: Change) -> str:
    """``pending (rcpt recipient_rejected 550)``: never an address, never a reply's text."""
    cause = change.cause
    if cause is None:
        return str(change.state)
    words = [cause.phase, cause.kind, *([str(cause.code)] if cause.code else [])]
    return f"{change.state} ({' '.join(words)})"
