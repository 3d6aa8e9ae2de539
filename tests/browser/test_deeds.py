"""Settling, holding, trying a route: by keyboard, through the dialogs, without JavaScript, and when it is too late."""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin.core.hold import Scope
from outbox_admin.db import schema
from outbox_admin.db.store import holds
from tests.browser.conftest import Site
from tests.web.population import Population

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Enter = Callable[..., None]
FOCUSED = "document.activeElement.textContent.trim()"


def held(population: Population) -> list[str]:
    with population.engine.connect() as db:
        return list(db.execute(sa.select(schema.outbox_hold.c.scope)).scalars())


def place(population: Population, reason: str = "relay moves") -> UUID:
    with population.engine.begin() as db:
        return holds.place(
            db, scope=Scope.EVERYTHING, value="", reason=reason, who="bob", until=None, now=population.now
        )


def press_to(page: "Page", label: str) -> None:
    """Tab until the element with this text has the focus."""
    for _ in range(60):
        if page.evaluate(FOCUSED) == label:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the keyboard does not reach {label}")


def test_a_message_in_doubt_is_settled_by_keyboard(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    row = here.message("uncertain", message_id="<m1@shop.example>")
    enter(page)
    page.goto(f"{site.url}/messages/{row}")
    press_to(page, "It arrived…")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.evaluate(FOCUSED) == "Leave it in doubt"
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    assert page.evaluate(FOCUSED) == "It arrived…"
    assert here.state(row) == "uncertain"
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    press_to(page, "It arrived")
    page.keyboard.press("Enter")
    page.wait_for_selector("#status:has-text('The message is settled: it arrived.')")
    assert page.locator(".timeline").text_content().count("Settled as arrived by operator") == 1  # type: ignore[union-attr]
    assert here.state(row) == "sent"


def test_an_answer_that_comes_too_late_says_so_and_changes_nothing(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    row = here.message("uncertain")
    enter(page)
    page.goto(f"{site.url}/messages/{row}")
    page.click("text=Send it again…")
    page.wait_for_selector("dialog[open]")
    table = schema.email_outbox
    with here.engine.begin() as db:  # the relay's answer came after all
        late = {"state": "sent", "sent_at": here.now, "payload": None, "key_id": None}
        db.execute(sa.update(table).where(table.c.id == row).values(late))
    page.click("dialog button:has-text('Send it again')")
    page.wait_for_selector("#status:has-text('it is not in doubt any more, it is sent now')")
    assert here.state(row) == "sent"


def test_a_hold_is_placed_and_lifted_by_keyboard(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    enter(page)
    page.goto(f"{site.url}/holds")
    press_to(page, "Place a hold…")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.evaluate(FOCUSED) == "Cancel"
    page.focus("dialog input[value=everything]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.type("invoice.notice")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("wrong total, bug 4711")
    press_to(page, "Place the hold")
    page.keyboard.press("Enter")
    page.wait_for_selector("#status:has-text('Template invoice.notice is held.')")
    assert held(here) == ["template"]
    assert "wrong total, bug 4711" in (page.locator("#live").text_content() or "")
    press_to(page, "Lift… Template invoice.notice")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.evaluate(FOCUSED) == "Keep holding"
    press_to(page, "Lift the hold")
    page.keyboard.press("Enter")
    page.wait_for_selector("#status:has-text('The hold is lifted.')")
    assert held(here) == []


def test_a_hold_without_a_name_is_refused_and_the_form_keeps_what_was_typed(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    enter(page)
    page.goto(f"{site.url}/holds")
    page.click("text=Place a hold…")
    page.check("dialog input[value=domain]")
    page.fill("dialog [name=reason]", "their server is down")
    page.click("dialog button:has-text('Place the hold')")
    page.wait_for_selector("[role=alert]:has-text('The domain')")
    assert page.input_value("[name=reason]") == "their server is down"
    assert page.is_checked("input[value=domain]")
    assert page.locator("[name=value]").get_attribute("aria-describedby") == "problem"
    assert held(here) == []


def test_a_hold_that_somebody_else_lifted_is_not_lifted_twice(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    hold = place(here)
    enter(page)
    page.goto(f"{site.url}/holds")
    page.click("text=Lift…")
    page.wait_for_selector("dialog[open]")
    with here.engine.begin() as db:
        holds.lift(db, hold, now=here.now)
    page.click("dialog button:has-text('Lift the hold')")
    page.wait_for_selector("#status:has-text('that hold is over, or somebody else has lifted it')")


def test_a_paused_route_is_tried_from_the_overview(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    here.worker(routes=["primary"])
    later = here.now + timedelta(hours=1)
    here.insert(schema.outbox_route, name="primary", breaker="open", opened_at=here.now, next_probe_at=later)
    enter(page)
    press_to(page, "Try it now")
    page.keyboard.press("Enter")
    page.wait_for_selector("#status:has-text('Route primary is tried with the next cycle.')")
    page.wait_for_selector(".findings:has-text('The next try is due.')")
    with here.engine.connect() as db:
        assert db.execute(sa.select(schema.outbox_route.c.next_probe_at)).scalar_one() < later


def test_settling_and_holding_work_without_javascript(
    new_page: "Callable[..., Page]", site: Site, enter: Enter, here: Population
) -> None:
    row = here.message("uncertain")
    page = new_page(java_script_enabled=False)
    enter(page)
    page.click("text=Settle them")
    page.click(f"#m-{row} a")
    page.click("text=Give it up…")
    page.click("main button:has-text('Give it up')")
    assert "The message is given up." in (page.locator("#status").text_content() or "")
    assert here.state(row) == "cancelled"
    page.click("nav >> text=Holds")
    page.click("text=Place a hold…")
    page.fill("[name=reason]", "relay moves")
    page.click("main button:has-text('Place the hold')")
    assert "Everything is held." in (page.locator("#status").text_content() or "")
    page.click("text=Lift…")
    page.click("main button:has-text('Lift the hold')")
    assert held(here) == []
