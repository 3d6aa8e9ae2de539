"""What the person on call reads first."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from flask import Flask

from outbox_admin.core.health import START_COMMANDS
from outbox_admin.db import schema
from tests.support.clock import FakeClock
from tests.web.conftest import Visitor
from tests.web.population import KID, Population
from tests.web.reading import attribute, elements, text


def test_all_is_well(viewer: Visitor, population: Population) -> None:
    population.worker()
    page = viewer.page("/")
    assert "All is well." in text(page)
    assert "1 worker at work." in text(page)
    assert attribute(page, "div", "data-level", id="live") == "ok"


def test_without_a_worker_the_three_commands_are_shown(viewer: Visitor, population: Population) -> None:
    population.message("pending")
    page = text(viewer.page("/"))
    assert "No worker reports; nothing is sent." in page
    for command in START_COMMANDS:
        assert command in page


def test_rows_of_a_missing_key_are_counted_with_key_cure_and_time(
    viewer: Visitor, population: Population
) -> None:
    population.worker(key_ids=[])
    population.messages(12, "pending", held=f"key:{KID}")
    population.insert(
        schema.outbox_key,
        kid=KID,
        state="known",
        missing_since=population.now - timedelta(hours=1),
        created_at=population.now,
    )
    assert (
        f"12 messages wait for key {KID}, which no worker holds. "
        "Restore the key ring, or declare the key lost; in 71 h they are rejected."
    ) in text(viewer.page("/"))


def test_a_paused_route_says_since_when_why_and_when_next(viewer: Visitor, population: Population) -> None:
    now = population.now
    told = {
        "since": (now - timedelta(minutes=4)).isoformat(),
        "until": (now + timedelta(seconds=80)).isoformat(),
        "phase": "auth",
        "kind": "auth_rejected",
        "code": 535,
    }
    population.worker(breakers={"primary": told})
    page = text(viewer.page("/"))
    assert "Worker mail-1:4711 alone has paused route primary for 4 min" in page
    assert "(535)" in page
    assert "Next try in 80 s." in page


def test_the_banner_when_mail_is_simulated(configured: Callable[..., Flask], population: Population) -> None:
    population.user("viewer", "viewer")
    visitor = Visitor(
        configured(simulating=True, notice="Backoff base and cycle are 0.5 s here.").test_client()
    )
    visitor.sign_in("viewer")
    for path in ("/", "/messages", "/dead-letters"):
        page = text(visitor.page(path))
        assert "Mail is simulated." in page
        assert "Backoff base and cycle are 0.5 s here." in page


def test_what_the_workers_say_of_simulation_counts(
    configured: Callable[..., Flask], population: Population, viewer: Visitor
) -> None:
    population.worker(simulating=True)
    assert "Mail is simulated." in text(viewer.page("/messages"))
    other = Visitor(configured(simulating=True).test_client())
    other.sign_in("viewer")
    assert "Mail is simulated." in text(other.page("/"))


def test_a_console_without_a_relay_of_its_own_believes_its_workers(
    configured: Callable[..., Flask], population: Population
) -> None:
    population.user("viewer", "viewer")
    population.worker(simulating=False)
    visitor = Visitor(configured(simulating=True).test_client())
    visitor.sign_in("viewer")
    assert "Mail is simulated." not in text(visitor.page("/"))


def test_tiles_lead_to_the_lists_that_they_count(viewer: Visitor, population: Population) -> None:
    population.messages(3, "pending")
    population.messages(2, "failed")
    page = viewer.page("/")
    for url, count in (("/messages?overdue=1", 3), ("/dead-letters/list?state=failed", 2)):
        assert url in page
        rows = [one for _, one in elements(viewer.page(url), "tr") if one.get("id", "").startswith("m-")]
        assert len(rows) == count


def test_the_chart_has_words_and_a_table(viewer: Visitor, population: Population) -> None:
    population.minute(1, "accepted", 40)
    population.minute(1, "accepted", 2, template="other")
    population.minute(3, "deferred", 5)
    page = viewer.page("/")
    assert "Peak 42 a minute" in text(page)
    assert "47 in all" in text(page)
    assert elements(page, "rect")
    assert not [one for _, one in elements(page) if "style" in one]
    for wanted in ("24h", "7d"):
        assert "47 in all" in text(viewer.page(f"/?range={wanted}"))


def test_an_empty_chart_says_so(viewer: Visitor) -> None:
    assert "Nothing was sent in this time." in text(viewer.page("/"))


def test_top_causes_come_from_the_tries(viewer: Visitor, population: Population) -> None:
    row = population.message("pending")
    for number in range(3):
        population.attempt(row, number)
    population.attempt(row, 4, cause_phase="connect", cause_kind="dns", cause_code=None, cause_enhanced=None)
    page = text(viewer.page("/"))
    assert page.index("Relay asks to slow down") < page.index("Relay name not found")


@pytest.mark.parametrize(("age", "level"), [(30, "ok"), (61, "warning"), (301, "critical")])
def test_an_overdue_message_raises_the_level(
    viewer: Visitor, population: Population, clock: FakeClock, age: int, level: str
) -> None:
    due = population.now - timedelta(seconds=age)
    population.message("pending", due_at=due, first_due_at=due)
    population.worker()
    assert attribute(viewer.page("/"), "div", "data-level", id="live") == level


def test_a_lost_worker_is_shown_as_lost(viewer: Visitor, population: Population) -> None:
    population.worker()
    population.worker(host="mail-2", pid=8, beat_at=population.now - timedelta(minutes=2))
    population.worker(host="mail-3", pid=9, holding=3, last_progress_at=population.now - timedelta(minutes=5))
    page = text(viewer.page("/"))
    assert "mail-2:8 lost" in page
    assert "mail-3:9 stuck" in page
    assert "1 of 2 workers made no progress" in page
