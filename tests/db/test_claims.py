"""Ownership: what a claim returns is the caller's alone, in the right order, and nothing else is."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from outbox_admin.core.lifecycle import OnUnknown
from outbox_admin.db.engine import create
from outbox_admin.db.store import candidates, claims
from outbox_admin.db.store.results import record
from tests.db.rows import KID, LEASE, NOW, add, alone, claim, deferred, later, read, result
from tests.support.waiting import until


def test_a_claim_counts_the_attempt_and_names_its_owner(engine: sa.Engine) -> None:
    token = uuid4()
    with engine.begin() as db:
        row_id = add(db, on_unknown="hold", max_attempts=3, supersede_key="s")
        [owned] = claim(db, token=token, worker="here:7:b")
        stored = read(db, row_id)
    assert (owned.id, owned.token, owned.attempt, owned.tries) == (row_id, token, 1, 1)
    assert (owned.payload, owned.payload_size, owned.key_id) == (b"sealed", 6, KID)
    assert (owned.standing.max_attempts, owned.standing.on_unknown) == (3, OnUnknown.HOLD)
    assert (stored.state, stored.claimed_by, stored.claimed_at) == ("sending", "here:7:b", NOW)
    assert stored.lease_until == owned.lease_until == NOW + LEASE


def test_two_dispatchers_that_read_the_same_candidate_before_either_updates_it(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
    mine = {"now": NOW, "worker": "w", "lease": LEASE}
    with engine.begin() as db:
        first = candidates.due(db, now=NOW, limit=20, usable=None).clear
    with engine.begin() as db:
        second = candidates.due(db, now=NOW, limit=20, usable=None).clear
    assert first == second == [row_id]
    with engine.begin() as db:
        won = claims.take(db, first, token=uuid4(), **mine)
    with engine.begin() as db:
        lost = claims.take(db, second, token=uuid4(), **mine)
    assert [one.id for one in won] == [row_id]
    assert lost == []
    with engine.begin() as db:
        assert read(db, row_id).attempts == 1


@pytest.mark.postgresql
def test_a_dispatcher_that_waits_for_the_others_update_gets_nothing(postgres_engine: sa.Engine) -> None:
    with postgres_engine.begin() as db:
        row_id = add(db)
    got: list[UUID] = []

    def take() -> None:
        with postgres_engine.begin() as db:
            owned = claims.take(db, [row_id], now=NOW, token=uuid4(), worker="b", lease=LEASE)
            got.extend(one.id for one in owned)

    with postgres_engine.begin() as db:
        assert claims.take(db, [row_id], now=NOW, token=uuid4(), worker="a", lease=LEASE)
        other = threading.Thread(target=take)
        other.start()
        other.join(0.3)  # it stands at the row's lock, or has not come so far: both must end alike
    other.join()
    assert got == []
    with postgres_engine.begin() as db:
        assert (read(db, row_id).claimed_by, read(db, row_id).attempts) == ("a", 1)


@pytest.mark.postgresql
def test_a_claim_that_lost_every_row_looks_again(postgres_engine: sa.Engine) -> None:
    with postgres_engine.begin() as db:
        rows = [add(db) for _ in range(4)]
    got: list[UUID] = []
    with postgres_engine.begin() as db:
        first = claim(db, limit=2)
        other = threading.Thread(target=lambda: got.extend(_claimed(postgres_engine, limit=2)))
        other.start()
        other.join(0.3)  # it stands at the first row's lock, or has not come so far: both must end alike
    other.join()
    assert [*(owned.id for owned in first), *got] == rows


def test_many_dispatchers_at_once_share_the_rows_without_overlap(
    engine: sa.Engine, database_url: str
) -> None:
    with engine.begin() as db:
        rows = {add(db) for _ in range(200)}

    def dispatch(_: int) -> list[UUID]:
        own, mine = create(database_url), []
        try:
            while batch := _claimed_at_last(own, limit=7):
                mine.extend(batch)
        finally:
            own.dispose()
        return mine

    with ThreadPoolExecutor(8) as dispatchers:
        claimed = [row_id for mine in dispatchers.map(dispatch, range(8)) for row_id in mine]
    assert len(claimed) == len(set(claimed))
    with engine.begin() as db:  # whoever lost every race went away; nothing is left over for long
        claimed.extend(owned.id for owned in claim(db, limit=200))
    assert set(claimed) == rows


def _claimed(engine: sa.Engine, *, limit: int) -> list[UUID]:
    with engine.begin() as db:
        return [owned.id for owned in claim(db, limit=limit)]


def _claimed_at_last(engine: sa.Engine, *, limit: int) -> list[UUID]:
    """As a lane does: where SQLite kept it waiting too long for its turn, which is never fair, it asks again."""
    got: list[list[UUID]] = []

    def asked() -> bool:
        with suppress(sa.exc.OperationalError):
            got.append(_claimed(engine, limit=limit))
        return bool(got)

    assert until(asked)
    return got[0]


def test_urgent_rows_come_first_then_the_oldest_due(engine: sa.Engine) -> None:
    with engine.begin() as db:
        bulk = add(db, priority=2, due_at=later(minutes=-9))
        normal_new = add(db, priority=1, due_at=later(minutes=-2))
        normal_old = add(db, priority=1, due_at=later(minutes=-5))
        urgent = add(db, priority=0, due_at=NOW)
        assert [one.id for one in claim(db, limit=3)] == [urgent, normal_old, normal_new]
        assert [one.id for one in claim(db)] == [bulk]


def test_rows_due_later_held_or_expired_are_left_alone(engine: sa.Engine) -> None:
    with engine.begin() as db:
        add(db, due_at=later(seconds=1))
        add(db, held="hold:1")
        add(db, held="alone")
        add(db, expires_at=NOW)
        assert claim(db) == []


def test_only_rows_that_the_worker_can_open_are_claimed(engine: sa.Engine) -> None:
    with engine.begin() as db:
        foreign = add(db, key_id="ffffffffffffffff")
        own = add(db)
        nobodys = add(db, key_id=None, payload=None, payload_size=0)
        assert [one.id for one in claim(db, usable={KID})] == [own, nobodys]
        assert [one.id for one in claim(db, usable=None)] == [foreign]


def test_a_row_without_a_payload_says_so(engine: sa.Engine) -> None:
    with engine.begin() as db:
        add(db, key_id=None, payload=None, payload_size=0)
        [owned] = claim(db)
    assert (owned.payload, owned.payload_size) == (None, 0)


def test_a_large_payload_is_read_by_itself_and_only_by_its_owner(engine: sa.Engine) -> None:
    large = b"x" * (claims.INLINE + 1)
    with engine.begin() as db:
        add(db, payload=large)  # whoever put it in by hand need not tell its size
        [owned] = claim(db)
        assert (owned.payload, owned.payload_size) == (None, len(large))
        assert claims.load_payload(db, row_id=owned.id, token=owned.token) == large
        assert claims.load_payload(db, row_id=owned.id, token=uuid4()) is None


def test_a_row_that_came_back_from_a_lost_worker_is_claimed_alone(engine: sa.Engine) -> None:
    with engine.begin() as db:
        rows = [add(db, held="alone", due_at=later(minutes=-minute)) for minute in (3, 2)]
        ordinary = add(db)
        assert [one.id for one in claim(db)] == [ordinary]
        assert [[one.id for one in alone(db)] for _ in range(3)] == [[rows[0]], [rows[1]], []]


def test_oc_47_rows_that_become_visible_out_of_order(engine: sa.Engine) -> None:
    """A row with an earlier id that is committed later is found all the same: there is no high-water mark."""
    with engine.begin() as db:
        second = add(db, id=UUID(int=2), created_at=later(minutes=-1), due_at=later(minutes=-1))
        assert [one.id for one in claim(db)] == [second]
    with engine.begin() as db:
        first = add(db, id=UUID(int=1), created_at=later(minutes=-2), due_at=later(minutes=-2))
        assert [one.id for one in claim(db)] == [first]


@pytest.mark.postgresql
def test_oc_47_a_transaction_that_stays_open_hides_only_its_own_row(postgres_engine: sa.Engine) -> None:
    with postgres_engine.connect() as slow:
        first = add(slow, id=UUID(int=1))
        with postgres_engine.begin() as db:
            second = add(db, id=UUID(int=2))
            assert [one.id for one in claim(db)] == [second]
        slow.commit()
    with postgres_engine.begin() as db:
        assert [one.id for one in claim(db)] == [first]


def test_a_claim_forgets_the_handover_of_an_earlier_one(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, handover_at=later(minutes=-9))
        claim(db)
        assert read(db, row_id).handover_at is None


def test_a_candidate_that_another_put_off_meanwhile_is_not_sent_before_its_time(engine: sa.Engine) -> None:
    mine = {"worker": "w", "lease": LEASE}
    with engine.begin() as db:
        row_id = add(db)
        read_before = candidates.due(db, now=NOW, limit=20, usable=None).clear
    with engine.begin() as db:
        [owned] = claim(db)
        record(db, [result(owned, deferred(later(seconds=10)))], now=NOW, worker="other")
    with engine.begin() as db:
        assert claims.take(db, read_before, now=later(seconds=1), token=uuid4(), **mine) == []
        [taken] = claims.take(db, read_before, now=later(seconds=10), token=uuid4(), **mine)
    assert (taken.id, taken.attempt) == (row_id, 2)


def test_e11_a_claim_announces_what_may_be_announced_together(engine: sa.Engine) -> None:
    mine: dict[str, Any] = {"now": NOW, "limit": 20, "worker": "w", "lease": LEASE, "usable": None}
    with engine.begin() as db:
        free, asked = add(db), add(db, on_unknown="hold")
        large, strange = add(db, payload=b"x" * (claims.INLINE + 1)), add(db, on_unknown="perhaps")
        claimed = claims.claim_batch(db, token=uuid4(), announce=True, **mine)
        assert isinstance(claimed, list)
        marked = {one: read(db, one).handover_at for one in (free, asked, large, strange)}
    assert {one.id for one in claimed if one.announced} == {free}
    assert marked == {free: NOW, asked: None, large: None, strange: None}
