"""Retry plans: what is asked, what is done, and what is never done."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.db import schema
from outbox_admin.db.store import plans as store
from outbox_admin.db.store.operator import RetryResult
from outbox_admin.web.message import SAID
from tests.support.clock import FakeClock
from tests.web.conftest import Visitor
from tests.web.population import Population
from tests.web.reading import text

GROUP = {"state": "failed", "kind": "mailbox_full", "phase": "rcpt", "code": "452"}


def plan_of(visitor: Visitor, data: dict[str, object]) -> str:
    answer = visitor.post("/retry-plans", data)
    assert answer.status_code == 303
    return answer.headers["Location"].partition("?")[0]


def confirm(visitor: Visitor, plan: str, **data: str) -> int:
    return visitor.post(f"{plan}/confirm", data).status_code


def test_a_group_means_its_cause_phase_and_code(operator: Visitor, population: Population) -> None:
    wanted = population.messages(3, "failed")
    others = [
        population.message("failed", cause_code=450),
        population.message("failed", cause_kind="timeout"),
        population.message("rejected"),
    ]
    plan = plan_of(operator, GROUP)
    assert "Touches 3 of 3" in text(operator.page(plan))
    assert confirm(operator, plan) == 303
    assert {population.state(row) for row in wanted} == {"pending"}
    assert [population.state(row) for row in others] == ["failed", "failed", "rejected"]


def test_what_fails_after_the_preview_is_not_part_of_it(
    operator: Visitor, population: Population, clock: FakeClock
) -> None:
    before = population.message("failed")
    plan = plan_of(operator, GROUP)
    clock.advance(seconds=10)
    after = population.message("failed", finished_at=clock.now())
    assert "Touches 1 of 1" in text(operator.page(plan))
    confirm(operator, plan)
    assert (population.state(before), population.state(after)) == ("pending", "failed")


def test_possible_doubles_are_left_out_unless_ticked(operator: Visitor, population: Population) -> None:
    clean = population.message("failed")
    doubtful = population.message("failed", maybe_delivered=True)
    plan = plan_of(operator, GROUP)
    assert "Touches 1 of 2: 1 in doubt" in text(operator.page(plan))
    confirm(operator, plan)
    assert (population.state(clean), population.state(doubtful)) == ("pending", "failed")
    assert "1 retried, 1 skipped of 2" in text(operator.page(plan))
    second = population.message("failed")
    confirm(operator, plan_of(operator, GROUP), doubtful="1")
    assert (population.state(second), population.state(doubtful)) == ("pending", "pending")


def test_confirming_again_or_loading_again_does_nothing_more(
    operator: Visitor, population: Population
) -> None:
    row = population.message("failed")
    plan = plan_of(operator, {"ids": str(row)})
    assert [confirm(operator, plan) for _ in range(3)] == [303] * 3
    assert population.value(row, "retries") == 1
    assert [(entry.action, entry.count) for entry in population.audits("retry-plan")] == [("retry-plan", 1)]


def test_a_row_that_changed_since_the_preview_is_skipped(
    operator: Visitor, population: Population, engine: sa.Engine
) -> None:
    rows = population.messages(3, "failed")
    plan = plan_of(operator, {"ids": [str(row) for row in rows]})
    with engine.begin() as db:
        table = schema.email_outbox
        db.execute(sa.update(table).where(table.c.id == rows[0]).values(state="sent", payload=None))
    confirm(operator, plan)
    assert "2 retried, 1 skipped of 3" in text(operator.page(plan))
    assert population.state(rows[0]) == "sent"


def test_an_old_plan_is_gone_and_anothers_is_not_found(
    signed_in: Callable[[str], Visitor], population: Population, clock: FakeClock
) -> None:
    one, other = signed_in("operator"), signed_in("admin")
    row = population.message("failed")
    plan = plan_of(one, {"ids": str(row)})
    assert other.get(plan).status_code == 404
    assert confirm(other, plan) == 404
    clock.advance(minutes=11)
    assert one.get(plan).status_code == 410
    assert confirm(one, plan) == 410
    assert population.state(row) == "failed"


def test_expired_rows_are_never_sent_again(operator: Visitor, population: Population) -> None:
    late = population.message("failed", expires_at=population.now - timedelta(seconds=1))
    plan = plan_of(operator, GROUP)
    page = text(operator.page(plan))
    assert "Touches 0 of 1: 1 time has passed" in page
    assert "There is nothing to retry." in page
    confirm(operator, plan)
    assert population.state(late) == "failed"


def test_nothing_selected_is_said(operator: Visitor, population: Population) -> None:
    answer = operator.post("/retry-plans", {"selected": "1", "next": "/messages?state=failed"})
    assert answer.headers["Location"] == "/messages?state=failed"
    assert "Nothing was selected." in text(operator.page("/messages?state=failed"))


def test_many_rows_ask_for_their_number_and_are_moved_by_a_worker(
    operator: Visitor, population: Population, engine: sa.Engine, clock: FakeClock
) -> None:
    population.messages(1200, "failed")
    plan = plan_of(operator, GROUP)
    assert "Type the number of messages to confirm" in text(operator.page(plan))
    assert confirm(operator, plan) == 422
    assert confirm(operator, plan, number="1199") == 422
    assert confirm(operator, plan, number="1,200") == 303
    assert "0 retried so far of 1,200" in text(operator.page(plan))
    moved = []
    while not moved or moved[-1]:
        with engine.begin() as db:
            moved.append(store.advance(db, now=clock.now()))
    assert moved == [500, 500, 200, 0]
    assert "1,200 retried, 0 skipped of 1,200" in text(operator.page(plan))
    assert len(population.audits("retry-plan")) == 1


def test_a_plan_keeps_its_pace(
    operator: Visitor, population: Population, engine: sa.Engine, clock: FakeClock
) -> None:
    population.messages(200, "failed")
    plan = plan_of(operator, GROUP)
    confirm(operator, plan, number="200", pace="60")
    moved = []
    for _ in range(5):
        with engine.begin() as db:
            moved.append(store.advance(db, now=clock.now()))
        clock.advance(seconds=30)
    assert moved == [1, 30, 30, 30, 30]
    poll = operator.poll(plan.replace("/retry-plans", "/_f/retry-plans"))
    assert "121 retried so far of 200" in text(poll.get_data(as_text=True))


def test_two_workers_do_not_take_the_same_step(
    operator: Visitor, population: Population, engine: sa.Engine, clock: FakeClock
) -> None:
    population.messages(150, "failed")
    plan = plan_of(operator, GROUP)
    confirm(operator, plan, number="150")
    plan_id = UUID(plan.rpartition("/")[2])
    with engine.begin() as db:
        stale = store.find(db, plan_id)
    assert stale is not None
    with engine.begin() as db:
        assert store.advance(db, now=clock.now(), limit=100) == 100
    with engine.begin() as db:
        assert not store.lock(db, stale)
        assert store.advance(db, now=clock.now(), limit=100) == 50
    assert "150 retried, 0 skipped" in text(operator.page(plan))


def test_every_refusal_of_a_retry_has_its_sentence() -> None:
    assert set(SAID) == set(RetryResult)


def test_a_retry_to_a_suppressed_recipient_is_refused_and_keeps_the_payload(
    operator: Visitor, population: Population
) -> None:
    population.insert(
        schema.suppression, recipient_key="jane@example.com", reason="x", who="a", created_at=population.now
    )
    row = population.message("failed")
    answer = operator.post(f"/messages/{row}/retry")
    assert answer.status_code == 409
    assert "its recipient is on the suppression list" in text(answer.get_data(as_text=True))
    assert (population.state(row), population.value(row, "has_payload")) == ("failed", True)


def test_a_retry_of_what_a_newer_message_replaced_sends_nothing(
    operator: Visitor, population: Population
) -> None:
    earlier = population.now - timedelta(hours=1)
    row = population.message("failed", supersede_key="cart:1", created_at=earlier)
    population.message("sent", supersede_key="cart:1", created_at=population.now)
    answer = operator.post(f"/messages/{row}/retry")
    assert answer.status_code == 409
    assert "a newer message took its place" in text(answer.get_data(as_text=True))
    assert population.state(row) == "superseded"
