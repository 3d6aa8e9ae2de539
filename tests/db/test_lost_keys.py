"""Messages whose key no worker holds: they wait aside, come back, or are rejected in the end."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from outbox_admin.db.schema import audit_entry, outbox_key
from outbox_admin.db.store import keys, lost_keys, operator, sweeps, workers
from outbox_admin.db.store.workers import Heartbeat
from tests.db.rows import KID, NOW, add, claim, counted, later, read

GONE = "ff" * 8
GRACE = timedelta(hours=72)


def beat(db: sa.Connection, *kids: str, state: str = "active", age: timedelta = timedelta(0)) -> None:
    one = Heartbeat(
        id="b",
        host="b",
        pid=1,
        kind="worker",
        version="0",
        lanes=1,
        started_at=NOW,
        key_ids=kids,
        state=state,
    )
    workers.beat(db, one, now=NOW - age)


def missing_since(db: sa.Connection, kid: str = GONE) -> object:
    return db.execute(
        sa.select(outbox_key.c.missing_since).where(outbox_key.c.kid == kid)
    ).scalar_one_or_none()


def test_a_row_of_a_key_that_nobody_holds_is_set_aside(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id, own = add(db, key_id=GONE), add(db)
        assert lost_keys.note_missing_keys(db, now=NOW, usable={KID}) == {GONE: 1}
        assert lost_keys.note_missing_keys(db, now=later(hours=1), usable={KID}) == {}
        stored = read(db, row_id)
        assert (stored.state, stored.held, stored.attempts) == ("pending", f"key:{GONE}", 0)
        assert missing_since(db) == NOW
        assert [one.id for one in claim(db)] == [own]


def test_a_key_that_another_live_worker_holds_is_not_missing(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, key_id=GONE)
        beat(db, GONE)
        assert lost_keys.note_missing_keys(db, now=NOW, usable={KID}) == {}
        assert read(db, row_id).held is None


@pytest.mark.parametrize(("state", "age"), [("stopped", timedelta(0)), ("active", timedelta(seconds=31))])
def test_a_worker_that_stopped_or_was_lost_holds_no_key(
    engine: sa.Engine, state: str, age: timedelta
) -> None:
    with engine.begin() as db:
        add(db, key_id=GONE)
        beat(db, GONE, state=state, age=age)
        assert lost_keys.note_missing_keys(db, now=NOW, usable={KID}) == {GONE: 1}


def test_a_key_that_is_back_brings_its_rows_back_and_starts_their_time_anew(engine: sa.Engine) -> None:
    with engine.begin() as db:
        rows = [add(db, key_id=GONE) for _ in range(3)]
        lost_keys.note_missing_keys(db, now=NOW, usable={KID})
        back = later(days=2)
        for _ in range(2):
            lost_keys.note_missing_keys(db, now=back, usable={KID, GONE}, limit=2)
        assert {read(db, one).held for one in rows} == {None}
        assert {read(db, one).first_due_at for one in rows} == {back}
        assert missing_since(db) is None
        assert len(claim(db, now=back, usable={GONE})) == 3


def test_rows_of_a_lost_key_are_rejected_cleared_and_audited(engine: sa.Engine) -> None:
    with engine.begin() as db:
        held, due, own = (
            add(db, key_id=GONE, held=f"key:{GONE}"),
            add(db, key_id=GONE, due_at=later(hours=1)),
            add(db),
        )
        keys.declare_lost(db, GONE, who="op", now=NOW)
        assert lost_keys.reject_lost_keys(db, now=NOW) == sorted((held, due))
        stored = read(db, held)
        assert counted(db) == {"payload_unreadable": 2}
        entry = db.execute(sa.select(audit_entry).where(audit_entry.c.action == "lost_key_rejected")).one()
        assert read(db, own).state == "pending"
    assert (stored.state, stored.payload, stored.key_id, stored.held) == ("rejected", None, None, None)
    assert (stored.cause_phase, stored.cause_kind) == ("prepare", "payload_unreadable")
    assert entry.count == 2


def test_a_tombstone_of_the_ring_condemns_as_well(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, key_id=GONE)
        assert lost_keys.reject_lost_keys(db, now=NOW) == []
        assert lost_keys.reject_lost_keys(db, now=NOW, tombstones={GONE}) == [row_id]


def test_the_declaration_passes_any_number(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for _ in range(12):
            add(db, key_id=GONE)
        keys.declare_lost(db, GONE, who="op", now=NOW)
        assert [len(lost_keys.reject_lost_keys(db, now=NOW, limit=8)) for _ in range(3)] == [8, 4, 0]


def prove(db: sa.Connection) -> None:
    keys.register(db, {KID: "aa"}, now=NOW)
    keys.prove(db, KID, now=NOW)


def test_after_the_grace_the_row_is_rejected_and_not_before(engine: sa.Engine) -> None:
    with engine.begin() as db:
        prove(db)
        row_id = add(db, key_id=GONE)
        lost_keys.note_missing_keys(db, now=NOW, usable={KID})
        wait = {"grace": GRACE, "usable": {KID}}
        assert lost_keys.reject_after_grace(db, now=later(hours=72, seconds=-1), **wait) == []
        assert lost_keys.reject_after_grace(db, now=later(hours=72), **wait) == [row_id]
        assert read(db, row_id).state == "rejected"


def test_a_ring_that_never_opened_anything_rejects_nothing(engine: sa.Engine) -> None:
    with engine.begin() as db:
        keys.register(db, {KID: "aa"}, now=NOW)
        add(db, key_id=GONE)
        lost_keys.note_missing_keys(db, now=NOW, usable={KID})
        assert lost_keys.reject_after_grace(db, now=later(days=9), grace=GRACE, usable={KID}) == []


def test_five_pass_by_themselves_and_the_others_wait_for_an_operator(engine: sa.Engine) -> None:
    with engine.begin() as db:
        prove(db)
        rows = [add(db, key_id=GONE, due_at=later(minutes=number - 60)) for number in range(8)]
        lost_keys.note_missing_keys(db, now=NOW, usable={KID})
        wait = {"grace": GRACE, "usable": {KID}}
        assert lost_keys.reject_after_grace(db, now=later(days=3), **wait) == sorted(rows[:5])
        assert {read(db, one).held for one in rows[5:]} == {"unreadable"}
        assert sweeps.give_up(db, now=later(days=6), after=timedelta(days=3)) == []
        assert lost_keys.reject_after_grace(db, now=later(days=4), **wait) == []
        keys.declare_lost(db, GONE, who="op", now=later(days=4))
        assert lost_keys.reject_lost_keys(db, now=later(days=4)) == sorted(rows[5:])


def test_what_was_stopped_for_an_operator_comes_back_with_the_key(engine: sa.Engine) -> None:
    with engine.begin() as db:
        prove(db)
        rows = [add(db, key_id=GONE) for _ in range(7)]
        lost_keys.note_missing_keys(db, now=NOW, usable={KID})
        lost_keys.reject_after_grace(db, now=later(days=3), grace=GRACE, usable={KID})
        lost_keys.note_missing_keys(db, now=later(days=3), usable={KID, GONE})
        assert [read(db, one).state for one in rows].count("pending") == 2
        assert {read(db, one).held for one in rows} == {None}


def test_a_revoked_key_is_never_rejected_for_being_missing(engine: sa.Engine) -> None:
    with engine.begin() as db:
        prove(db)
        row_id = add(db, key_id=GONE)
        lost_keys.note_missing_keys(db, now=NOW, usable={KID})
        wait = {"grace": GRACE, "usable": {KID}}
        assert lost_keys.reject_after_grace(db, now=later(days=30), revoked={GONE}, **wait) == []
        assert read(db, row_id).state == "pending"
        assert lost_keys.reject_after_grace(db, now=later(days=30), **wait) == [row_id]


def test_a_message_that_comes_after_the_others_are_gone_has_the_whole_grace(engine: sa.Engine) -> None:
    with engine.begin() as db:
        prove(db)
        withdrawn = add(db, key_id=GONE)
        lost_keys.note_missing_keys(db, now=NOW, usable={KID})
        assert operator.cancel(db, withdrawn, now=later(hours=1))
        lost_keys.note_missing_keys(db, now=later(hours=2), usable={KID})
        assert missing_since(db) is None
        add(db, key_id=GONE)
        lost_keys.note_missing_keys(db, now=later(days=9), usable={KID})
        assert missing_since(db) == later(days=9)
        assert lost_keys.reject_after_grace(db, now=later(days=9), grace=GRACE, usable={KID}) == []
