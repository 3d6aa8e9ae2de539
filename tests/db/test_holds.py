"""Holds in the store: what they cover, how stamps come and go, and that none is ever left behind."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from outbox_admin.core.hold import Scope
from outbox_admin.db.reads import holds as reads
from outbox_admin.db.schema import audit_entry, email_outbox, outbox_hold
from outbox_admin.db.store import holds, sweeps
from outbox_admin.db.store.claims import TurnedAway, claim_batch
from outbox_admin.ids import new_id
from tests.db.rows import KID, LEASE, NOW, add, claim, later, read


def place(db: sa.Connection, scope: Scope = Scope.EVERYTHING, value: str = "", **more: Any) -> UUID:
    wish: dict[str, Any] = {"reason": "relay moves", "who": "cli:ops", "until": None, "now": NOW}
    return holds.place(db, scope=scope, value=value, **(wish | more))


def add_many(db: sa.Connection, number: int, **values: Any) -> list[UUID]:
    """All but the first in one go."""
    model = read(db, add(db, **values))._asdict()
    del model["has_payload"]
    rows = [model | {"id": new_id(), "idempotency_key": f"many:{place}"} for place in range(number - 1)]
    db.execute(sa.insert(email_outbox), rows)
    return [model["id"], *(row["id"] for row in rows)]


def held(db: sa.Connection, *ids: UUID) -> list[str | None]:
    return [read(db, row_id).held for row_id in ids]


def stamp(hold_id: UUID) -> str:
    return f"hold:{hold_id.hex}"


def free_all(db: sa.Connection, *, now: datetime = NOW) -> list[int]:
    """The number of each statement, down to the first that is not full."""
    steps = [holds.free(db, now=now)]
    while steps[-1] == 500:
        steps.append(holds.free(db, now=now))
    return steps


@pytest.mark.parametrize(
    ("value", "covered"),
    [
        ("example.com", ["jane@example.com", "bob@x.example@example.com", "Al@Example.COM"]),
        (".example.com", ["joe@mail.example.com", "eve@a.b.example.com"]),
        ("xn--bcher-kva.example", ["info@xn--bcher-kva.example"]),
        ("com", []),
    ],
)
def test_a_domain_hold_covers_that_domain_or_its_subdomains_and_no_look_alike(
    engine: sa.Engine, value: str, covered: list[str]
) -> None:
    keys = [
        "jane@example.com",
        "joe@mail.example.com",
        "eve@a.b.example.com",
        "ann@notexample.com",
        "example.com@other.example",
        "info@xn--bcher-kva.example",
        "bob@x.example@example.com",  # by another program: the domain follows the last at sign
        "Al@Example.COM",  # by another program: not folded
    ]
    with engine.begin() as db:
        ids = {add(db, recipient_key=key): key for key in keys}
        hold_id = place(db, Scope.DOMAIN, value)
        stamped = holds.stamp(db, ids, now=NOW)
        assert sorted(ids[row_id] for row_id in stamped) == sorted(covered)
        assert set(held(db, *stamped)) == ({stamp(hold_id)} if covered else set())


def test_a_template_hold_covers_that_key_exactly(engine: sa.Engine) -> None:
    with engine.begin() as db:
        mine = add(db, template_key="invoice")
        others = [add(db, template_key=key) for key in ("invoice.notice", "Invoice", "", "%")]
        place(db, Scope.TEMPLATE, "invoice")
        assert holds.stamp(db, [mine, *others], now=NOW) == {mine}


def test_a_row_that_is_not_waiting_or_is_stamped_otherwise_is_left_alone(engine: sa.Engine) -> None:
    with engine.begin() as db:
        ids = [add(db, state=state) for state in ("sending", "failed", "sent")]
        ids += [add(db, held=other) for other in ("alone", "key:aa", "format", "unreadable")]
        place(db)
        assert holds.stamp(db, ids, now=NOW) == set()
        assert holds.stamp(db, [], now=NOW) == set()


def test_e15_lifting_clears_stamps_500_rows_a_statement(engine: sa.Engine) -> None:
    with engine.begin() as db:
        ids = add_many(db, 1203)
        hold_id = place(db)
        assert holds.stamp(db, ids, now=NOW) == set(ids)
        assert claim(db) == []
        assert holds.lift(db, hold_id, now=NOW)
        assert free_all(db) == [500, 500, 203]
        assert len(claim(db, limit=1203)) == 1203


def test_e15_2500_held_rows_at_the_head_keep_nobody_behind_them_waiting(engine: sa.Engine) -> None:
    with engine.begin() as db:
        place(db, Scope.TEMPLATE, "invoice")
        add_many(db, 2500, template_key="invoice")
        behind = add(db, template_key="password.reset", due_at=NOW)
    turned_away: list[int] = []
    while True:
        with engine.begin() as db:
            found = claim_batch(
                db, now=NOW, limit=20, token=uuid4(), worker="here:1:a", lease=LEASE, usable={KID}
            )
        if not isinstance(found, TurnedAway):
            break
        turned_away.append(found.number)
    assert [one.id for one in found] == [behind]
    assert turned_away == [500] * 5
    with engine.begin() as db:
        counted = sa.select(email_outbox.c.attempts, email_outbox.c.tries, sa.func.count())
        waiting = counted.where(email_outbox.c.state == "pending").group_by(*counted.selected_columns[:2])
        assert [tuple(one) for one in db.execute(waiting)] == [(0, 0, 2500)]


def test_a_row_under_two_holds_goes_from_the_one_to_the_other(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id, other = add(db, template_key="invoice"), add(db)
        first = place(db)
        second = place(db, Scope.TEMPLATE, "invoice", now=later(seconds=1))
        third = place(db, Scope.DOMAIN, "example.com", now=later(seconds=2), reason="theirs")
        holds.stamp(db, [row_id, other], now=later(seconds=3))
        assert held(db, row_id, other) == [stamp(first)] * 2
        holds.lift(db, first, now=later(seconds=4))
        assert holds.free(db, now=later(seconds=4)) == 2
        assert held(db, row_id, other) == [stamp(second), stamp(third)]
        holds.lift(db, third, now=later(seconds=5))
        holds.free(db, now=later(seconds=5))
        assert held(db, row_id, other) == [stamp(second), None]
        holds.lift(db, second, now=later(seconds=6))
        holds.free(db, now=later(seconds=6))
        assert held(db, row_id, other) == [None, None]


def test_the_rows_of_several_lifted_holds_are_freed_together(engine: sa.Engine) -> None:
    with engine.begin() as db:
        ids = [add(db, template_key=f"t{number}") for number in range(4)]
        made = [place(db, Scope.TEMPLATE, f"t{number}") for number in range(4)]
        holds.stamp(db, ids, now=NOW)
        for hold_id in made[:3]:
            holds.lift(db, hold_id, now=NOW)
        assert [holds.free(db, now=NOW, limit=2) for _ in range(3)] == [2, 1, 0]
        assert sorted(map(str, held(db, *ids))) == sorted(["None"] * 3 + [stamp(made[3])])


def test_a_hold_ends_at_its_time_by_itself(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        hold_id = place(db, until=later(hours=1))
        holds.stamp(db, [row_id], now=NOW)
        assert holds.free(db, now=later(minutes=59)) == 0
        assert holds.end_over(db, now=later(minutes=59)) == []
        assert [one.id for one in holds.end_over(db, now=later(hours=1))] == [hold_id]
        assert holds.free(db, now=later(hours=1)) == 1
        assert held(db, row_id) == [None]
        entry = db.execute(sa.select(audit_entry)).one()
        assert (entry.actor, entry.action, entry.target) == ("worker", "hold_over", f"{hold_id} everything")
        assert db.execute(sa.select(outbox_hold)).all() == []


def test_a_hold_that_is_over_covers_nothing_even_before_anybody_removed_it(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db)
        hold_id = place(db, until=later(hours=1))
        assert holds.active(db, now=later(hours=1)) == []
        assert holds.stamp(db, [row_id], now=later(hours=1)) == set()
        assert not holds.lift(db, hold_id, now=later(hours=1))


def test_a_stamp_whose_hold_was_lifted_meanwhile_is_cleared_too(engine: sa.Engine) -> None:
    """A claim that read the hold just before it was lifted may commit its stamps after everything was cleared."""
    with engine.begin() as db:
        row_id = add(db, held=stamp(uuid4()))
        others = [add(db, held=other) for other in ("alone", "key:aa", "format", "unreadable")]
        before = held(db, *others)
        assert holds.free(db, now=NOW) == 1
        assert held(db, row_id) == [None]
        assert held(db, *others) == before


def test_the_time_of_a_hold_does_not_count_towards_giving_up(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id, scheduled = add(db), add(db, due_at=later(days=2), first_due_at=later(days=2))
        hold_id = place(db)
        holds.stamp(db, [row_id], now=NOW)
        patience: dict[str, Any] = {"after": later(days=3) - NOW}
        assert sweeps.give_up(db, now=later(days=10), **patience) == []
        holds.lift(db, hold_id, now=later(days=10))
        holds.free(db, now=later(days=10))
        assert read(db, row_id).first_due_at == later(days=10)
        assert read(db, scheduled).first_due_at == later(days=2)
        assert sweeps.give_up(db, now=later(days=12), **patience) == [scheduled]
        assert sweeps.give_up(db, now=later(days=14), **patience) == [row_id]


def test_what_a_hold_covers_is_not_given_up_before_any_claim_has_stamped_it(engine: sa.Engine) -> None:
    """While its route is paused, nothing is claimed and so nothing is stamped."""
    with engine.begin() as db:
        row_id = add(db)
        place(db)
        patience: dict[str, Any] = {"after": later(days=3) - NOW}
        assert sweeps.give_up(db, now=later(days=10), **patience) == []
        assert held(db, row_id) == [None]


def test_e16_a_held_row_expires_all_the_same(engine: sa.Engine) -> None:
    with engine.begin() as db:
        row_id = add(db, expires_at=later(hours=1))
        place(db)
        holds.stamp(db, [row_id], now=NOW)
        assert sweeps.expire(db, now=later(hours=1)) == [row_id]
        assert (read(db, row_id).state, read(db, row_id).held) == ("expired", None)


def test_the_same_wish_twice_is_one_hold_and_moves_its_end(engine: sa.Engine) -> None:
    with engine.begin() as db:
        first = place(db, until=later(hours=1))
        assert place(db, until=later(hours=2), now=later(minutes=1)) == first
        (one,) = holds.active(db, now=NOW)
        assert (one.until, one.created_at) == (later(hours=2), NOW)
        assert place(db, who="cli:other") != first
        assert place(db, reason="another") != first
        assert place(db, Scope.TEMPLATE, "invoice") != first
        assert len(holds.active(db, now=NOW)) == 4


def test_a_hold_of_a_later_version_stops_nobody_and_keeps_its_stamps(engine: sa.Engine) -> None:
    with engine.begin() as db:
        strange = place(db, Scope.EVERYTHING)
        db.execute(sa.update(outbox_hold).values(scope="recipient", value="jane"))
        kept, row_id = add(db, held=stamp(strange)), add(db)
        known = place(db)
        assert [one.id for one in holds.active(db, now=NOW)] == [known]
        assert [one.hold.id for one in reads.in_force(db, now=NOW)] == [known]
        assert holds.stamp(db, [row_id], now=NOW) == {row_id}
        holds.lift(db, known, now=NOW)
        assert holds.free(db, now=NOW) == 1
        assert held(db, kept, row_id) == [stamp(strange), None]
        assert holds.end_over(db, now=NOW) == []


def test_lifting_twice_says_so(engine: sa.Engine) -> None:
    with engine.begin() as db:
        hold_id = place(db)
        assert holds.lift(db, hold_id, now=NOW)
        assert not holds.lift(db, hold_id, now=NOW)
        assert not holds.lift(db, uuid4(), now=NOW)


def test_the_list_tells_how_many_due_rows_each_hold_keeps_and_how_many_wait_under_it(
    engine: sa.Engine,
) -> None:
    with engine.begin() as db:
        ids = [add(db, template_key="invoice") for _ in range(3)]
        add(db, template_key="invoice", due_at=later(days=1))
        add(db)
        hold_id = place(db, Scope.TEMPLATE, "invoice")
        place(db, Scope.DOMAIN, "other.example")
        holds.stamp(db, ids, now=NOW)
        first, second = reads.in_force(db, now=NOW)
        assert (first.hold.id, first.rows.value, second.rows.value) == (hold_id, 3, 0)
        assert [reads.waiting(db, one.hold).value for one in (first, second)] == [4, 0]


@pytest.mark.postgresql
def test_rows_that_somebody_has_locked_are_passed_over_and_freed_later(postgres_engine: sa.Engine) -> None:
    with postgres_engine.begin() as db:
        ids = add_many(db, 3)
        hold_id = place(db)
        holds.stamp(db, ids, now=NOW)
        holds.lift(db, hold_id, now=NOW)
    with postgres_engine.begin() as other:
        other.execute(sa.select(email_outbox.c.id).where(email_outbox.c.id == ids[1]).with_for_update())
        with postgres_engine.begin() as db:
            assert holds.free(db, now=NOW) == 2
    with postgres_engine.begin() as db:
        assert holds.free(db, now=NOW) == 1
        assert held(db, *ids) == [None, None, None]
