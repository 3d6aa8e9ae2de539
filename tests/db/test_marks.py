"""The hand-over mark, leases and renderings are written by the owner alone."""

from uuid import uuid4

import sqlalchemy as sa

from outbox_admin.db.store import marks, reclaim, release
from tests.db.rows import KID, LEASE, NOW, add, attempts, claim, counted, later, read


def test_the_mark_remembers_when_and_renews_the_lease(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        owned = claim(db)
        assert marks.mark_handover(db, owned, now=later(minutes=2), lease=LEASE) == {row_id}
        stored = read(db, row_id)
    assert stored.handover_at == later(minutes=2)
    assert stored.lease_until == later(minutes=7)


def test_a_reclaimed_row_is_not_marked(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        owned = claim(db)
        reclaim.reclaim(db, now=later(minutes=5, seconds=1))
        assert marks.mark_handover(db, owned, now=later(minutes=6), lease=LEASE) == set()
        assert read(db, row_id).handover_at is None


def test_a_row_claimed_anew_is_not_marked_by_its_former_owner(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        former = claim(db)
        release.release(db, token=former[0].token)
        [owner] = claim(db)
        assert marks.mark_handover(db, former, now=NOW, lease=LEASE) == set()
        assert marks.mark_handover(db, [owner], now=NOW, lease=LEASE) == {row_id}


def test_a_row_that_expired_meanwhile_is_never_handed_over(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, expires_at=later(seconds=30))
        owned = claim(db)
        assert marks.mark_handover(db, owned, now=later(seconds=30), lease=LEASE) == set()
        stored = read(db, row_id)
        assert counted(db) == {"expired": 1}
        assert attempts(db, row_id) == []
    assert (stored.state, stored.payload, stored.key_id) == ("expired", None, None)
    assert (stored.cause_kind, stored.finished_at) == ("expired", later(seconds=30))
    assert (stored.attempts, stored.tries) == (0, 0)


def test_e12_marking_one_row_renews_the_leases_of_the_others(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for _ in range(3):
            add(db)
        owned = claim(db)
        marks.mark_handover(db, owned[:1], now=later(minutes=1), lease=LEASE)
        assert {read(db, one.id).lease_until for one in owned} == {later(minutes=6)}
        assert [read(db, one.id).handover_at for one in owned] == [later(minutes=1), None, None]


def test_the_leases_of_the_others_are_left_where_nothing_is_to_be_renewed(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for _ in range(2):
            add(db)
        owned = claim(db)
        marks.mark_handover(db, owned[:1], now=later(seconds=20), lease=LEASE, renewing=False)
        assert read(db, owned[1].id).lease_until == NOW + LEASE


def test_renew_reaches_every_row_of_the_token(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for _ in range(2):
            add(db)
        owned = claim(db)
        assert marks.renew(db, tokens={owned[0].token}, now=later(minutes=4), lease=LEASE) == 2
        assert marks.renew(db, tokens={uuid4()}, now=later(minutes=4), lease=LEASE) == 0
        assert {read(db, one.id).lease_until for one in owned} == {later(minutes=9)}


def test_a_rendering_replaces_the_payload_while_the_row_is_ours(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        [owned] = claim(db)
        assert marks.store_rendering(db, owned, payload=b"composed", key_id="aa" * 8, now=NOW)
        stored = read(db, row_id)
        assert (stored.payload, stored.key_id, stored.payload_size) == (b"composed", "aa" * 8, 8)
        release.release(db, token=owned.token)
        assert not marks.store_rendering(db, owned, payload=b"late", key_id=KID, now=NOW)
        assert read(db, row_id).payload == b"composed"
