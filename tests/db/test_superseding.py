"""A newer message with the same supersede key takes the place of what still waits, and of nothing else (E17)."""

from __future__ import annotations

import threading
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin.core.lifecycle import Change, State
from outbox_admin.db.store import marks, reclaim, results, superseding
from tests.db.rows import (
    LEASE,
    NOW,
    accepted,
    add,
    alone,
    attempts,
    claim,
    counted,
    deferred,
    later,
    read,
    result,
)

OLD = {"supersede_key": "verify:42", "created_at": later(minutes=-5)}
NEW = {"supersede_key": "verify:42", "created_at": later(minutes=-4)}


def stored(engine: sa.Engine, row_id: UUID) -> sa.Row[tuple[object, ...]]:
    with engine.begin() as db:
        return read(db, row_id)  # type: ignore[no-any-return]


def test_e17_at_the_claim_the_older_one_gives_way_at_no_cost(engine: sa.Engine) -> None:
    with engine.begin() as db:
        old, new = (
            add(db, **OLD, template_key="verify", cause_kind="throttled", detail=b"old"),
            add(db, **NEW),
        )
        assert [one.id for one in claim(db)] == [new]
        row = read(db, old)
        assert (attempts(db, old), counted(db)) == ([], {"superseded": 1})
    assert (row.state, row.attempts, row.tries, row.finished_at) == ("superseded", 0, 0, NOW)
    assert (row.payload, row.key_id, row.held, row.cause_kind, row.detail) == (None,) * 5


@pytest.mark.parametrize(
    ("state", "replaces"),
    [
        ("pending", True),
        ("sending", True),
        ("sent", True),
        ("failed", True),
        ("uncertain", True),
        ("superseded", True),
        ("cancelled", False),
        ("rejected", False),
        ("expired", False),
    ],
)
def test_e17_a_newer_one_that_was_withdrawn_refused_or_too_late_took_nobodys_place(
    engine: sa.Engine, state: str, replaces: bool
) -> None:
    with engine.begin() as db:
        old = add(db, **OLD)
        add(db, **NEW, state=state, due_at=later(days=1))
        assert [one.id for one in claim(db)] == ([] if replaces else [old])


def test_e17_of_the_same_moment_the_greater_id_is_the_newer(engine: sa.Engine) -> None:
    with engine.begin() as db:
        first = add(db, **OLD, id=UUID(int=1))
        second = add(db, **OLD, id=UUID(int=2))
        assert [one.id for one in claim(db)] == [second]
        assert read(db, first).state == "superseded"


@pytest.mark.parametrize("key", [None, "verify:43"])
def test_other_keys_and_none_replace_nothing(engine: sa.Engine, key: str | None) -> None:
    with engine.begin() as db:
        rows = [add(db, **OLD), add(db, supersede_key=key, created_at=NOW), add(db, supersede_key=None)]
        assert {one.id for one in claim(db)} == set(rows)


@pytest.mark.parametrize("step", [1, -1], ids=["in their order", "as another program may"])
def test_the_parts_of_one_message_do_not_replace_each_other(engine: sa.Engine, step: int) -> None:
    with engine.begin() as db:
        parts = [
            add(db, supersede_key="s", idempotency_key="k", part=part, created_at=later(seconds=step * part))
            for part in range(3)
        ]
        assert {one.id for one in claim(db)} == set(parts)


def test_two_messages_of_the_same_moment_leave_each_recipient_one_of_them(engine: sa.Engine) -> None:
    """Each adds its first row by one statement and the others by a second; the four may interleave in any way."""
    for order in ((0, 1, 2, 3), (0, 1, 3, 2), (0, 2, 1, 3), (1, 0, 2, 3), (1, 0, 3, 2), (1, 3, 0, 2)):
        with engine.connect() as db, db.begin():
            for place, row in enumerate(order):
                message, part = row % 2, row // 2
                moment = later(seconds=place - 60)
                add(db, supersede_key="s", idempotency_key=f"m{message}", part=part, created_at=moment)
            left = claim(db)
            assert sorted(one.part for one in left) == [0, 1], order
            db.rollback()


def test_e17_at_the_mark_what_was_replaced_since_the_claim_is_not_handed_over(engine: sa.Engine) -> None:
    with engine.begin() as db:
        old, other = add(db, **OLD, attempts=2, tries=3), add(db)
        owned = claim(db)
        add(db, **NEW)
        assert marks.mark_handover(db, owned, now=later(seconds=1), lease=LEASE) == {other}
        row = read(db, old)
        assert counted(db) == {"superseded": 1}
        results.record(db, [result(owned[0], deferred())], now=NOW, worker="w")  # comes too late
        assert (read(db, old), attempts(db, old)) == (row, [])
    assert (row.state, row.payload, row.key_id, row.finished_at) == (
        "superseded",
        None,
        None,
        later(seconds=1),
    )
    assert (row.attempts, row.tries, row.handover_at, row.lease_until) == (2, 3, None, None)


@pytest.mark.parametrize("counts", [True, False])
def test_e17_at_a_deferral_the_try_is_kept_and_the_row_gives_way(engine: sa.Engine, counts: bool) -> None:
    change = deferred() if counts else Change(State.PENDING, "channel_fault", counted=False)
    with engine.begin() as db:
        old = add(db, **OLD)
        [owned] = claim(db)
        marks.mark_handover(db, [owned], now=NOW, lease=LEASE)
        add(db, **NEW, due_at=later(days=1))
        told = [result(owned, change, detail=b"sealed")]
        assert results.record(db, told, now=NOW, worker="w") == {old}
        row = read(db, old)
        assert [one.outcome for one in attempts(db, old)] == [change.outcome]
        assert counted(db) == {change.outcome: 1, "superseded": 1}
        assert results.record(db, told, now=NOW, worker="w") == {old}  # its answer was lost
        assert (len(attempts(db, old)), counted(db)) == (1, {change.outcome: 1, "superseded": 1})
    assert (row.state, row.payload, row.key_id, row.finished_at) == ("superseded", None, None, NOW)
    assert row.attempts == int(counts)


def test_e19_what_gives_way_is_counted_after_the_results_as_a_mark_counts_it(engine: sa.Engine) -> None:
    """A mark counts `expired`, then `superseded`; the other way round two lanes could wait for each other crosswise."""
    written: list[str] = []

    def note(db: object, cursor: object, statement: str, parameters: object, *others: object) -> None:
        if statement.startswith("INSERT INTO outbox_minute"):
            written.extend(word for word in ("deferred", "expired", "superseded") if word in str(parameters))

    with engine.begin() as db:
        add(db, **OLD)
        add(db)
        owned = {one.supersede_key: one for one in claim(db)}
        add(db, **NEW, due_at=later(days=1))
        told = [result(owned["verify:42"], deferred()), result(owned[None], Change(State.EXPIRED, "expired"))]
        sa.event.listen(db, "before_cursor_execute", note)
        results.record(db, told, now=NOW, worker="w")
    assert written == ["deferred", "expired", "superseded"]


def test_what_was_accepted_or_is_in_doubt_is_not_superseded(engine: sa.Engine) -> None:
    with engine.begin() as db:
        sent, doubtful = add(db, **OLD), add(db, supersede_key="other", created_at=later(minutes=-5))
        owned = {one.id: one for one in claim(db)}
        add(db, **NEW, due_at=later(days=1))
        add(db, supersede_key="other", created_at=NOW, due_at=later(days=1))
        unknown = Change(State.UNCERTAIN, "unknown", maybe_delivered=True)
        told = [result(owned[sent], accepted()), result(owned[doubtful], unknown)]
        results.record(db, told, now=NOW, worker="w")
        assert [read(db, one).state for one in (sent, doubtful)] == ["sent", "uncertain"]


def test_e17_a_row_that_travels_alone_gives_way_too(engine: sa.Engine) -> None:
    with engine.begin() as db:
        old = add(db, **OLD)
        claim(db)
        add(db, **NEW, due_at=later(days=1))
        reclaim.reclaim(db, now=later(minutes=6))
        assert alone(db, now=later(minutes=6)) == []
        assert (read(db, old).state, read(db, old).attempts) == ("superseded", 1)


@pytest.mark.parametrize("held", [None, "alone", "hold:1", "key:aa", "unreadable", "format"])
def test_e16_the_sweep_ends_replaced_rows_whatever_holds_them_and_whenever_they_are_due(
    engine: sa.Engine, held: str | None
) -> None:
    with engine.begin() as db:
        old = add(db, **OLD, held=held, due_at=later(days=3))
        new, unkeyed = add(db, **NEW, due_at=later(days=3)), add(db, due_at=later(days=3))
        assert superseding.sweep(db, now=NOW).ended == [old]
        row = read(db, old)
        assert (row.state, row.held, row.payload, row.finished_at) == ("superseded", None, None, NOW)
        assert {read(db, one).state for one in (new, unkeyed)} == {"pending"}


def test_e16_the_sweep_is_bounded_by_what_it_looks_at_and_comes_round(engine: sa.Engine) -> None:
    with engine.begin() as db:
        rows = [add(db, supersede_key=f"k{number}", due_at=later(days=1)) for number in range(5)]
        add(db, supersede_key="k3", created_at=NOW, state="sent")
        first = superseding.sweep(db, now=NOW, limit=2)
        second = superseding.sweep(db, now=NOW, after=first.last, limit=2)
        third = superseding.sweep(db, now=NOW, after=second.last, limit=2)
    assert ([first.ended, second.ended, third.ended], third.last) == ([[], [rows[3]], []], None)


def test_what_is_being_sent_is_left_to_its_worker(engine: sa.Engine) -> None:
    with engine.begin() as db:
        old = add(db, **OLD)
        claim(db)
        add(db, **NEW, due_at=later(days=1))
        assert superseding.sweep(db, now=NOW).ended == []
        assert read(db, old).state == "sending"


@pytest.mark.postgresql
def test_a_newer_message_that_is_not_committed_replaces_nothing_yet(postgres_engine: sa.Engine) -> None:
    with postgres_engine.begin() as db:
        old = add(db, **OLD)
    with postgres_engine.connect() as producer:
        add(producer, **NEW)
        with postgres_engine.begin() as db:
            assert superseding.sweep(db, now=NOW).ended == []
        producer.commit()
    with postgres_engine.begin() as db:
        assert superseding.sweep(db, now=NOW).ended == [old]


@pytest.mark.postgresql
def test_the_sweep_passes_over_a_row_that_a_claim_is_just_taking(postgres_engine: sa.Engine) -> None:
    with postgres_engine.begin() as db:
        old = add(db, **OLD)
    swept: list[list[UUID]] = []

    def sweep() -> None:
        with postgres_engine.begin() as db:
            swept.append(superseding.sweep(db, now=NOW).ended)

    with postgres_engine.begin() as db:
        [owned] = claim(db)
        with postgres_engine.begin() as producer:
            add(producer, **NEW)
        other = threading.Thread(target=sweep)
        other.start()
        other.join(60)  # it does not wait for us, or this would last the whole minute
        assert (swept, owned.id) == ([[]], old)
    assert stored(postgres_engine, old).state == "sending"
