"""E27: every writer against every state. What the table does not name changes nothing at all, not even a stamp."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.hold import Scope
from outbox_admin.core.lifecycle import LIVE, WITH_PAYLOAD, Change, OnUnknown, State
from outbox_admin.db.reads.plans import Selection
from outbox_admin.db.store import (
    arrivals,
    claims,
    deployment,
    erasing,
    holds,
    keys,
    lost_keys,
    marks,
    operator,
    plans,
    reclaim,
    release,
    results,
    retention,
    superseding,
    suppressions,
    sweeps,
    unreadable,
)
from outbox_admin.db.store.claims import Claim
from outbox_admin.ids import new_id
from tests.db.rows import KID, LEASE, NOW, accepted, add, deferred, later, read, rejected, result

Db = sa.Connection
TOKEN, OTHER = uuid4(), uuid4()
DAY = timedelta(days=1)
AGO = later(minutes=-1)
LOST = Cause(Phase.LEASE, Kind.WORKER_LOST)


@dataclass(frozen=True)
class Writer:
    """One way to change a row.

    ``act`` gets a row of each state in turn, which has ``values`` and, where those do not forbid it, everything that
    lets the writer act. ``moves``: all the states that it may change, and into what.
    """

    act: Callable[[Db, UUID], Any]
    moves: dict[str, str]
    values: dict[str, Any] = field(default_factory=dict)


def claimed(row_id: UUID, token: UUID = TOKEN, *, supersede_key: str | None = None) -> Claim:
    """What the owner of a row knows of it."""
    times: dict[str, Any] = {"created_at": AGO, "not_before": None, "expires_at": None, "first_due_at": AGO}
    return Claim(
        id=row_id,
        token=token,
        attempt=1,
        max_attempts=8,
        tries=1,
        retries=0,
        idempotency_key="k",
        part=0,
        recipient="jane@example.com",
        template_key="",
        key_id=KID,
        payload=b"sealed",
        payload_size=6,
        message_id=None,
        on_unknown=OnUnknown.RESEND,
        channel_faults=0,
        maybe_delivered=False,
        supersede_key=supersede_key,
        lease_until=NOW + LEASE,
        **times,
    )


def claim_batch(db: Db, row_id: UUID) -> None:
    claims.claim_batch(db, now=NOW, limit=5, token=OTHER, worker="w", lease=LEASE, usable=None)


def claim_alone(db: Db, row_id: UUID) -> None:
    claims.claim_alone(db, now=NOW, token=OTHER, worker="w", lease=LEASE, usable=None)


def mark(db: Db, row_id: UUID) -> None:
    marks.mark_handover(db, [claimed(row_id)], now=NOW, lease=LEASE)


def under_a_hold(act: Callable[[Db, UUID], Any]) -> Callable[[Db, UUID], Any]:
    def held(db: Db, row_id: UUID) -> None:
        everything: dict[str, Any] = {"scope": Scope.EVERYTHING, "value": "", "until": None}
        holds.place(db, reason="why", who="cli:ann", now=NOW, **everything)
        act(db, row_id)

    return held


def on_the_list(act: Callable[[Db, UUID], Any]) -> Callable[[Db, UUID], Any]:
    def suppressed(db: Db, row_id: UUID) -> None:
        suppressions.add(db, recipient_key="jane@example.com", reason="why", who="cli:ann", now=NOW)
        act(db, row_id)

    return suppressed


def replaced(act: Callable[[Db, UUID], Any]) -> Callable[[Db, UUID], Any]:
    def newer(db: Db, row_id: UUID) -> None:
        newer = {"supersede_key": "s", "created_at": NOW, "due_at": later(days=9), "recipient_key": "b@b"}
        add(db, **newer)
        act(db, row_id)

    return newer


def recorded(change: Change, token: UUID = TOKEN, **known: Any) -> Callable[[Db, UUID], Any]:
    def record(db: Db, row_id: UUID) -> None:
        told = result(claimed(row_id, token, **known), change)
        results.record(db, [told], now=NOW, worker="w", lease=LEASE)

    return record


def planned(*, doubtful: bool) -> Callable[[Db, UUID], Any]:
    def plan(db: Db, row_id: UUID) -> None:
        plan_id, chosen = new_id(), Selection(ids=(row_id,))
        plans.create(db, plan_id=plan_id, owner="ann", selection=chosen, expected=1, now=NOW)
        plans.confirm(db, plan_id, owner="ann", include_doubtful=doubtful, pace=None, now=NOW)
        plans.advance(db, now=NOW)

    return plan


def missing_key(db: Db, row_id: UUID) -> None:
    lost_keys.note_missing_keys(db, now=NOW, usable=["ee" * 8])


def grace(db: Db, row_id: UUID) -> None:
    missing_key(db, row_id)
    keys.register(db, {"ee" * 8: "check"}, now=NOW)
    keys.prove(db, ["ee" * 8], now=NOW)
    lost_keys.reject_after_grace(db, now=later(days=4), grace=3 * DAY, usable=["ee" * 8])


def purge(db: Db, row_id: UUID) -> None:
    """Only the payloads: rows stay."""
    year = 365 * DAY
    retention.purge(db, now=NOW, keep_payload=30 * DAY, keep_done=year, keep_dead=year)


def erase(db: Db, row_id: UUID) -> None:
    erasing.erase(db, recipient_key="jane@example.com", mark="erased:1", now=NOW)


FINAL = ("sent", "rejected", "expired", "cancelled", "superseded")
KEYED = {"supersede_key": "s"}
OLD = {"finished_at": later(days=-31)}
PAST = {"expires_at": AGO}
TAKEN = {"pending": "sending"}
WRITERS: dict[str, Writer] = {
    # claiming
    "claim": Writer(claim_batch, TAKEN),
    "claim that announces": Writer(
        lambda db, one: claims.claim_batch(
            db, now=NOW, limit=5, token=OTHER, worker="w", lease=LEASE, usable=None, announce=True
        ),
        TAKEN,
    ),
    "claim of an expired row": Writer(claim_batch, {}, PAST),
    "claim of a row not due": Writer(claim_batch, {}, {"due_at": later(seconds=1)}),
    "claim of a held row": Writer(claim_batch, {}, {"held": "hold:1"}),
    "claim under a hold": Writer(under_a_hold(claim_batch), {"pending": "pending"}),
    "claim of a suppressed row": Writer(on_the_list(claim_batch), {"pending": "cancelled"}),
    "claim of a replaced row": Writer(replaced(claim_batch), {"pending": "superseded"}, KEYED),
    "claim alone": Writer(claim_alone, TAKEN, {"held": "alone"}),
    "claim alone of an ordinary row": Writer(claim_alone, {}),
    "claim alone under a hold": Writer(under_a_hold(claim_alone), {}, {"held": "alone"}),
    # while it is held
    "mark": Writer(mark, {"sending": "sending"}),
    "mark of an expired row": Writer(mark, {"sending": "expired"}, PAST),
    "mark of a replaced row": Writer(replaced(mark), {"sending": "superseded"}, KEYED),
    "mark under a hold": Writer(under_a_hold(mark), {"sending": "pending"}),
    "mark of a suppressed row": Writer(on_the_list(mark), {"sending": "pending"}),
    "mark by another": Writer(
        lambda db, one: marks.mark_handover(db, [claimed(one, OTHER)], now=NOW, lease=LEASE), {}
    ),
    "renewal": Writer(
        lambda db, one: marks.renew(db, tokens={TOKEN}, now=NOW, lease=LEASE), {"sending": "sending"}
    ),
    "rendering": Writer(
        lambda db, one: marks.store_rendering(db, claimed(one), payload=b"x", key_id=KID, now=NOW),
        {"sending": "sending"},
    ),
    "release": Writer(lambda db, one: release.release(db, token=TOKEN), {"sending": "pending"}),
    "release by another": Writer(lambda db, one: release.release(db, token=OTHER), {}),
    "stamp": Writer(
        lambda db, one: release.hold(db, token=TOKEN, ids=[one], held="format"), {"sending": "pending"}
    ),
    # results
    "acceptance": Writer(
        recorded(accepted()), dict.fromkeys(("pending", "sending", "failed", "uncertain"), "sent")
    ),
    "acceptance of another's claim": Writer(
        recorded(accepted(), OTHER), dict.fromkeys(("pending", "failed", "uncertain"), "sent")
    ),
    "rejection": Writer(recorded(rejected()), {"sending": "rejected"}),
    "rejection of another's claim": Writer(recorded(rejected(), OTHER), {}),
    "deferral": Writer(recorded(deferred()), {"sending": "pending"}),
    "deferral of another's claim": Writer(recorded(deferred(), OTHER), {}),
    "deferral of a replaced row": Writer(
        replaced(recorded(deferred(), supersede_key="s")), {"sending": "superseded"}, KEYED
    ),
    "deferral past the expiry": Writer(
        recorded(Change(State.EXPIRED, "deferred", cause=LOST)), {"sending": "expired"}
    ),
    "last deferral": Writer(recorded(Change(State.FAILED, "deferred", cause=LOST)), {"sending": "failed"}),
    "channel fault": Writer(
        recorded(Change(State.PENDING, "channel_fault", counted=False, cause=LOST)), {"sending": "pending"}
    ),
    "unknown, to be sent again": Writer(
        recorded(Change(State.PENDING, "unknown", due_at=NOW, maybe_delivered=True)), {"sending": "pending"}
    ),
    "unknown, to be asked": Writer(
        recorded(Change(State.UNCERTAIN, "unknown", maybe_delivered=True)), {"sending": "uncertain"}
    ),
    # sweeps
    "reclaim": Writer(lambda db, one: reclaim.reclaim(db, now=later(minutes=6)), {"sending": "pending"}),
    "reclaim before its time": Writer(lambda db, one: reclaim.reclaim(db, now=NOW), {}),
    "reclaim at the limit": Writer(
        lambda db, one: reclaim.reclaim(db, now=later(minutes=6)), {"sending": "failed"}, {"attempts": 8}
    ),
    "reclaim of a message to be asked about": Writer(
        lambda db, one: reclaim.reclaim(db, now=later(minutes=6)),
        {"sending": "uncertain"},
        {"on_unknown": "hold", "handover_at": AGO},
    ),
    "expiry": Writer(lambda db, one: sweeps.expire(db, now=NOW), {"pending": "expired"}, PAST),
    "giving up": Writer(
        lambda db, one: sweeps.give_up(db, now=NOW, after=3 * DAY),
        {"pending": "failed"},
        {"first_due_at": later(days=-4)},
    ),
    "sweep of replaced rows": Writer(
        replaced(lambda db, one: superseding.sweep(db, now=NOW)), {"pending": "superseded"}, KEYED
    ),
    "missing key": Writer(missing_key, {"pending": "pending"}),
    "end of a key's grace": Writer(grace, {"pending": "rejected"}),
    "lost key": Writer(
        lambda db, one: lost_keys.reject_lost_keys(db, now=NOW, tombstones=[KID]), {"pending": "rejected"}
    ),
    "newer format": Writer(
        lambda db, one: release.restore_newer(db, now=NOW), {"pending": "pending"}, {"held": "format"}
    ),
    "stamp of a hold": Writer(
        under_a_hold(lambda db, one: holds.stamp(db, [one], now=NOW)), {"pending": "pending"}
    ),
    "lifting a hold": Writer(
        lambda db, one: holds.free(db, now=NOW), {"pending": "pending"}, {"held": "hold:gone"}
    ),
    "suppression": Writer(
        on_the_list(lambda db, one: suppressions.cancel(db, [one], now=NOW)), {"pending": "cancelled"}
    ),
    "end of retention": Writer(purge, {"failed": "failed", "uncertain": "uncertain"}, OLD),
    # people
    "retry": Writer(
        lambda db, one: operator.retry(db, one, now=NOW), {"failed": "pending", "uncertain": "pending"}
    ),
    "retry of an expired row": Writer(lambda db, one: operator.retry(db, one, now=NOW), {}, PAST),
    "retry of a replaced row": Writer(
        replaced(lambda db, one: operator.retry(db, one, now=NOW)), {"failed": "superseded"}, KEYED
    ),
    "retry of a suppressed row": Writer(on_the_list(lambda db, one: operator.retry(db, one, now=NOW)), {}),
    "group retry": Writer(planned(doubtful=False), {"failed": "pending"}),
    "group retry with doubles": Writer(
        planned(doubtful=True), {"failed": "pending", "uncertain": "pending"}, {"maybe_delivered": True}
    ),
    "group retry of possible doubles unasked": Writer(planned(doubtful=False), {}, {"maybe_delivered": True}),
    "group retry of a replaced row": Writer(
        replaced(planned(doubtful=True)), {"failed": "superseded"}, KEYED
    ),
    "group retry of a suppressed row": Writer(on_the_list(planned(doubtful=True)), {}),
    "cancel": Writer(
        lambda db, one: operator.cancel(db, one, now=NOW), dict.fromkeys(("pending", "failed"), "cancelled")
    ),
    "settle: resend": Writer(lambda db, one: operator.resend(db, one, now=NOW), {"uncertain": "pending"}),
    "settle: resend of a replaced row": Writer(
        replaced(lambda db, one: operator.resend(db, one, now=NOW)), {}, KEYED
    ),
    "settle: arrived": Writer(
        lambda db, one: operator.settle(db, one, arrived=True, now=NOW), {"uncertain": "sent"}
    ),
    "settle: give up": Writer(
        lambda db, one: operator.settle(db, one, arrived=False, now=NOW), {"uncertain": "cancelled"}
    ),
    "erase": Writer(
        erase,
        dict.fromkeys(("pending", "failed", "uncertain"), "cancelled") | {state: state for state in FINAL},
    ),
    "confirmed copy": Writer(
        lambda db, one: deployment.settle_sent_since(db, since=NOW, now=NOW),
        dict.fromkeys(("pending", "sending"), "uncertain"),
    ),
    "unreadable: try again": Writer(
        lambda db, one: unreadable.try_again(db, now=NOW), {"pending": "pending"}, {"held": "unreadable"}
    ),
    "unreadable: reject": Writer(
        lambda db, one: unreadable.reject(db, now=NOW), {"pending": "rejected"}, {"held": "unreadable"}
    ),
    # the producer
    "withdrawal": Writer(lambda db, one: arrivals.withdraw(db, "k", now=NOW), {"pending": "cancelled"}),
}

#: E27, word for word, and what other rules add: a late success finds the row waiting again (E26); of a copied database
#: it is not known what was sent (E29).
ALLOWED = (
    {
        ("pending", to)
        for to in ("sending", "expired", "cancelled", "superseded", "rejected", "failed", "sent", "uncertain")
    }
    | {
        ("sending", to)
        for to in ("sent", "rejected", "failed", "uncertain", "expired", "superseded", "pending")
    }
    | {("failed", to) for to in ("pending", "cancelled", "superseded", "sent")}
    | {("uncertain", to) for to in ("pending", "sent", "cancelled")}
)


def put(db: Db, state: State, values: dict[str, Any]) -> UUID:
    """A row as its history would have left it in ``state``; a token of before stays in it."""
    made: dict[str, Any] = {"state": state.value, "claim_token": TOKEN, "attempts": 1, "tries": 1}
    if state is State.SENDING:
        made |= {"claimed_at": AGO, "claimed_by": "here:1:a", "lease_until": later(minutes=4)}
    if state not in LIVE:
        made |= {"finished_at": AGO}
    made |= values
    if state not in WITH_PAYLOAD:
        made |= {"payload": None, "key_id": None}
    if state is not State.PENDING and made.get("held") != "alone":
        made["held"] = None
    if state in LIVE:
        made["finished_at"] = None
    return add(db, idempotency_key="k", **made)


def pairs() -> Iterator[tuple[str, Writer, State]]:
    for name, writer in WRITERS.items():
        for state in State:
            yield name, writer, state


def confront(engine: sa.Engine) -> dict[tuple[str, State], tuple[Any, Any]]:
    """Each row as every writer found and left it; one transaction each, which is rolled back."""
    found: dict[tuple[str, State], tuple[Any, Any]] = {}
    with engine.connect() as db:
        for name, writer, state in pairs():
            with db.begin() as transaction:
                row_id = put(db, state, writer.values)
                before = read(db, row_id)
                writer.act(db, row_id)
                found[name, state] = before, read(db, row_id)
                transaction.rollback()
    return found


def test_e27_every_writer_against_every_state(engine: sa.Engine) -> None:
    seen = confront(engine)
    moved = {
        (name, state.value): after.state for (name, state), (before, after) in seen.items() if after != before
    }
    wanted = {(name, state): to for name, writer in WRITERS.items() for state, to in writer.moves.items()}
    assert moved == wanted
    changes = {(state, to) for (_, state), to in moved.items() if state != to}
    assert changes == ALLOWED
    check_rules(seen)


def check_rules(seen: dict[tuple[str, State], tuple[Any, Any]]) -> None:
    """What a row has in each state, however it came there."""
    for (name, state), (before, after) in seen.items():
        if after == before:
            continue
        told, keeps = (name, state.value, after.state), after.state in WITH_PAYLOAD
        assert (after.finished_at is None) is (after.state in LIVE), told
        assert after.has_payload is (keeps and name != "end of retention"), told
        assert (after.key_id is None) is (after.payload is None), told
        assert (after.sent_at is None) is (after.state != "sent" or before.state == "sent"), told
        assert after.held is None or after.state in LIVE, told
        assert after.lease_until is None or after.state == "sending", told
        assert after.maybe_delivered >= before.maybe_delivered, told
