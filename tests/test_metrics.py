"""The figures for Prometheus, as its own parser reads them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from outbox_admin import metrics
from outbox_admin.delivery.worker import Worker
from outbox_admin.demo.relay import Catcher, Verdict
from tests.delivery.conftest import relay, room  # noqa: F401 - the fixtures
from tests.delivery.room import Room, route_to


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
    Worker(room.parts(route_to(relay.port))).drain()
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
