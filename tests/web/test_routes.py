"""Routes on the overview, and the banners of workers that send nothing or send elsewhere."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from flask import Flask

from outbox_admin.db import schema
from outbox_admin.db.reads.deployment import COPY_SEEN_AT
from tests.support.clock import FakeClock
from tests.web.conftest import Visitor
from tests.web.population import Population
from tests.web.reading import elements, text


def route(population: Population, name: str = "primary", **given: Any) -> None:
    values = {
        "breaker": "open",
        "opened_at": population.now - timedelta(minutes=12),
        "next_probe_at": population.now + timedelta(seconds=40),
        "openings": 3,
        "cause_phase": "connect",
        "cause_kind": "network",
        "last_accepted_at": population.now - timedelta(minutes=13),
    }
    population.insert(schema.outbox_route, name=name, **values | given)


def actions(page: str) -> list[str]:
    return [found.get("action", "") for _, found in elements(page, "form")]


def test_a_paused_route_says_why_since_when_and_when_it_is_tried(
    viewer: Visitor, population: Population
) -> None:
    population.worker(routes=["primary"])
    route(population)
    page = viewer.page("/")
    told = text(page)
    assert "Sending on route primary is paused for 12 min: Relay not reachable while connecting." in told
    assert "Next try in 40 s." in told
    assert "Nothing answers there: check host and port in OUTBOX_SMTP_URL, and the firewall." in told
    assert "next try in 40 s" in told
    assert "13 min ago" in told
    assert not [url for url in actions(page) if "/probe" in url]


def test_an_operator_brings_the_next_probe_forward_once_and_it_is_audited(
    operator: Visitor, population: Population
) -> None:
    population.worker(routes=["primary"])
    route(population)
    assert actions(operator.page("/")).count("/routes/primary/probe") == 2
    assert operator.post("/routes/primary/probe").headers["Location"] == "/"
    page = text(operator.page("/"))
    assert "Route primary is tried with the next cycle." in page
    assert "The next try is due." in page
    assert operator.post("/routes/nowhere/probe").status_code == 303
    assert "route nowhere is not paused" in text(operator.page("/"))
    assert [(one.target, one.result) for one in population.audits("probe")] == [
        ("primary", "done"),
        ("nowhere", "refused"),
    ]


def test_who_probes_is_named_and_there_is_nothing_to_press_meanwhile(
    operator: Visitor, population: Population
) -> None:
    population.worker(routes=["primary"])
    until = population.now + timedelta(seconds=20)
    route(population, probing_by="mail-1:4711:abc", probing_until=until)
    page = operator.page("/")
    assert "mail-1:4711 tries it now" in text(page)
    assert "On trial" not in page
    table = page[page.index("routes-title") :]
    assert "/probe" not in table


def test_a_route_on_trial_says_how_many_messages_are_tried(viewer: Visitor, population: Population) -> None:
    population.worker(routes=["primary"])
    until = (population.now + timedelta(minutes=1)).isoformat()
    trial = {"id": "1", "worker": "w", "until": until}
    route(population, breaker="half_open", allowance=4, trials=[trial])
    page = text(viewer.page("/"))
    assert "Route primary is on trial after a pause for 12 min" in page
    assert "On trial" in page
    assert "1 of 4 at a time being tried" in page


def test_e23_a_worker_that_pauses_alone_stands_under_its_route(
    viewer: Visitor, population: Population
) -> None:
    told = {
        "since": (population.now - timedelta(minutes=4)).isoformat(),
        "until": (population.now + timedelta(seconds=80)).isoformat(),
        "phase": "connect",
        "kind": "network",
        "code": None,
    }
    population.worker(routes=["primary"])
    population.worker(host="mail-2", pid=9, routes=["primary"], breakers={"primary": told})
    page = text(viewer.page("/"))
    assert "Worker mail-2:9 alone has paused route primary for 4 min" in page
    assert "Open to mail" in page
    assert "mail-2:9 Paused alone" in page


def test_a_route_that_nobody_uses_any_more_is_no_alarm(viewer: Visitor, population: Population) -> None:
    population.worker(routes=["primary"])
    route(population, "old-relay")
    page = text(viewer.page("/"))
    assert "Sending on route old-relay is paused" not in page
    assert "All is well." in page


def test_a_copied_database_stands_on_every_page_until_it_is_confirmed(
    viewer: Visitor, population: Population, clock: FakeClock
) -> None:
    seen = (population.now - timedelta(minutes=5)).isoformat()
    population.insert(schema.outbox_meta, name=COPY_SEEN_AT, value=seen)
    population.worker(state="copied")
    for path in ("/", "/messages", "/dead-letters", "/holds"):
        page = text(viewer.page(path))
        assert "Sending has stopped: this database is a copy, noticed 5 min ago." in page, path
        assert "outbox-admin resume --confirm-copy" in page, path
    assert "sending has stopped for 5 min, so that no mail goes out twice" in text(viewer.page("/"))
    clock.advance(minutes=2)  # the worker is gone, and what it saw still holds
    assert "this database is a copy" in text(viewer.page("/messages"))


def test_what_one_worker_once_saw_is_no_news_while_others_send(
    viewer: Visitor, population: Population
) -> None:
    population.insert(schema.outbox_meta, name=COPY_SEEN_AT, value=population.now.isoformat())
    population.worker()
    assert "is a copy" not in text(viewer.page("/"))


def test_paused_workers_are_told_with_the_command_that_lets_them_send(
    viewer: Visitor, population: Population
) -> None:
    population.worker()
    population.worker(host="mail-2", state="paused")
    page = text(viewer.page("/messages"))
    assert (
        "1 worker of 2 was started paused and sends nothing. This lets it send: outbox-admin resume" in page
    )


def test_redirected_mail_is_told_with_a_masked_address(viewer: Visitor, population: Population) -> None:
    population.worker(redirect_to="test@dev.example")
    page = viewer.page("/messages")
    assert "Mail is redirected. Every message goes to t•••@dev.example instead of its recipient." in text(
        page
    )
    assert "test@dev.example" not in page


def test_without_workers_the_consoles_own_settings_speak(
    configured: Callable[..., Flask], population: Population
) -> None:
    population.user("viewer", "viewer")
    visitor = Visitor(configured(simulating=True, insecure_http=True, notice="A demo.").test_client())
    visitor.sign_in("viewer")
    page = text(visitor.page("/"))
    for said in ("Mail is simulated.", "This console is reached over plain http.", "A demo."):
        assert said in page
