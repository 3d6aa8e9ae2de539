"""A released row looks as if nobody had claimed it."""

from uuid import uuid4

import sqlalchemy as sa

from outbox_admin.db.store import marks, release
from tests.db.rows import LEASE, NOW, add, claim, later, read


def test_a_release_gives_the_attempt_back_and_leaves_the_due_time(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, attempts=2, tries=5)
        [owned] = claim(db)
        marks.mark_handover(db, [owned], now=NOW, lease=LEASE)
        assert release.release(db, token=owned.token) == 1
        stored = read(db, row_id)
    assert (stored.state, stored.attempts, stored.tries) == ("pending", 2, 5)
    assert (stored.due_at, stored.handover_at, stored.lease_until) == (later(minutes=-1), None, None)


def test_only_the_named_rows_are_released(engine: sa.Engine) -> None:
    with engine.begin() as db:
        for _ in range(3):
            add(db)
        owned = claim(db)
        assert release.release(db, token=owned[0].token, ids=[owned[2].id]) == 1
        assert [read(db, one.id).state for one in owned] == ["sending", "sending", "pending"]


def test_e13_a_claim_whose_answer_was_lost_is_undone_by_its_token(engine: sa.Engine) -> None:
    token = uuid4()
    with engine.begin() as db:
        add(db)
        claim(db, token=token)
    with engine.begin() as db:
        assert release.release(db, token=token) == 1
        assert release.release(db, token=token) == 0
        assert len(claim(db)) == 1


def test_a_token_of_before_releases_nothing(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        [former] = claim(db)
        release.release(db, token=former.token)
        claim(db)
        assert release.release(db, token=former.token) == 0
        assert read(db, row_id).state == "sending"


def test_a_held_row_is_stamped_and_costs_no_attempt(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        [owned] = claim(db)
        assert release.hold(db, token=owned.token, ids=[row_id], held="format") == 1
        stored = read(db, row_id)
        assert (stored.state, stored.held, stored.attempts) == ("pending", "format", 0)
        assert claim(db) == []


def test_what_only_a_newer_release_can_read_is_offered_anew_every_ten_minutes(engine: sa.Engine) -> None:
    with engine.begin() as db:
        newer, unreadable = add(db, held="format"), add(db, held="unreadable")
        assert release.restore_newer(db, now=NOW) == 1
        assert (read(db, newer).held, read(db, unreadable).held) == (None, "unreadable")
        [owned] = claim(db)
        release.hold(db, token=owned.token, ids=[newer], held="format")
        assert release.restore_newer(db, now=later(minutes=9)) == 0
        assert release.restore_newer(db, now=later(minutes=10)) == 1
        assert read(db, newer).attempts == 0
