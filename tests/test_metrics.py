"""The figures for Prometheus, as its own parser reads them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from outbox_admin import metrics
from outbox_admin.core.hold import Scope
from outbox_admin.db import schema
from outbox_admin.db.store import holds
from outbox_admin.demo.relay import Catcher, Verdict
from tests.delivery.conftest import relay, room  # noqa: F401 - the fixtures
from tests.delivery.room import Room, route_to
from tests.web.population import Population


def scraped(room: Room) -> dict[tuple[str, str], float]:  # noqa: F811
    with room.engine.begin() as db:
        page = metrics.exposition(db, now=room.clock.now()).decode()
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_ages_states_outcomes_and_the_last_cycle(room: Room, relay: Catcher) -> None:  # noqa: F811
    relay.decide = lambda recipient: Verdict.REFUSE if recipient.startswith("no") else Verdict.ACCEPT
    room.enqueue("yes@example.com")
    room.enqueue("no@example.com")
    room.worker(route_to(relay.port)).drain()
    room.enqueue("waits@example.com", not_before=room.clock.now() + timedelta(seconds=10))
    room.clock.advance(seconds=100)
    found = scraped(room)
    assert found["outbox_messages", "sent"] == 1
    assert found["outbox_messages", "rejected"] == 1
    assert found["outbox_messages", "pending"] == 1
    assert found["outbox_attempts_total", "accepted"] == 1
    assert found["outbox_attempts_total", "rejected"] == 1
    assert found["outbox_oldest_due_seconds", ""] == 90
    assert found["outbox_oldest_pending_seconds", ""] == 90
    assert found["outbox_last_completed_cycle_age_seconds", ""] == 100


def labelled(room: Room, name: str) -> dict[tuple[str, ...], float]:  # noqa: F811
    """Values of one gauge by the values of its labels."""
    with room.engine.begin() as db:
        page = metrics.exposition(db, now=room.clock.now()).decode()
    return {
        tuple(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    }


def test_what_stops_the_mail_is_measured(room: Room) -> None:  # noqa: F811
    people = Population(room.engine, room.clock.now())
    people.worker(routes=["primary"])
    people.worker(
        routes=["primary"], host="mail-2", breakers={"primary": {"kind": "network", "phase": "connect"}}
    )
    people.worker(state="paused", host="mail-3")
    people.insert(schema.outbox_route, name="primary", breaker="open", opened_at=people.now)
    people.insert(schema.outbox_route, name="retired", breaker="open", opened_at=people.now)
    with room.engine.begin() as db:
        hold = holds.place(
            db, scope=Scope.EVERYTHING, value="", reason="x", who="a", until=None, now=people.now
        )
    people.messages(3, held=f"hold:{hold.hex}")
    people.message(held="unreadable")
    assert labelled(room, "outbox_route_breaker") == {
        ("primary", "closed"): 0,
        ("primary", "open"): 1,
        ("primary", "half_open"): 0,
    }
    assert labelled(room, "outbox_route_paused_alone") == {("primary",): 1}
    assert labelled(room, "outbox_holds") == {(): 1}
    held = labelled(room, "outbox_held_messages")
    assert held == {("hold",): 3, ("format",): 0, ("unreadable",): 1, ("key",): 0}
    crew = labelled(room, "outbox_workers")
    assert (crew["active",], crew["paused",], crew["copied",], crew["lost",]) == (2, 1, 0, 0)
    assert labelled(room, "outbox_copied_database") == {(): 0}
    assert labelled(room, "outbox_health_level") == {(): 2}


def test_a_copied_database_is_measured(room: Room) -> None:  # noqa: F811
    Population(room.engine, room.clock.now()).worker(state="copied")
    assert labelled(room, "outbox_copied_database") == {(): 1}
    assert labelled(room, "outbox_workers")["copied",] == 1


def test_an_empty_queue_is_zero_seconds_old_and_no_worker_has_no_age(room: Room) -> None:  # noqa: F811
    found = scraped(room)
    assert found["outbox_oldest_due_seconds", ""] == 0
    assert ("outbox_last_completed_cycle_age_seconds", "") not in found


@pytest.mark.parametrize(
    ("header", "token", "fine"),
    [
        ("Bearer s3cret", "s3cret", True),
        ("bearer s3cret", "s3cret", True),
        ("Bearer wrong", "s3cret", False),
        ("Basic s3cret", "s3cret", False),
        ("Bearer ", "", False),
        (None, "s3cret", False),
        ("Bearer s3cret", None, False),
    ],
)
def test_the_token_guards_the_figures(header: str | None, token: str | None, *, fine: bool) -> None:
    assert metrics.allowed(header, token) is fine
