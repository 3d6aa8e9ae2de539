"""The console in a real Chromium: what only a browser can tell."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from outbox_admin.db import schema
from tests.browser.conftest import Site
from tests.web.population import Population

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

PATHS = (
    "/",
    "/?range=24h",
    "/messages",
    "/messages?state=failed",
    "/dead-letters",
    "/dead-letters/list?state=failed",
    "/holds",
)

Enter = Callable[..., None]


def set_state(population: Population, row: object, **values: object) -> None:
    table = schema.email_outbox
    with population.engine.begin() as db:
        db.execute(sa.update(table).where(table.c.id == row).values(**values))


def complaints(page: "Page") -> list[str]:
    """Console messages, page errors and requests to anywhere else, as they come."""
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text))
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("request", lambda request: found.append(request.url) if "127.0.0.1" not in request.url else None)
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 320])
def test_every_page_is_accessible_silent_and_fits(
    new_page: "Callable[..., Page]", site: Site, enter: Enter, furnished: Population, scheme: str, width: int
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    found = complaints(page)
    page.goto(f"{site.url}/login")
    _check(page, Axe())
    enter(page, "admin")
    ids = [furnished.message("failed"), furnished.message("uncertain")]
    asked = (
        f"/messages/{ids[0]}/cancel",
        f"/messages/{ids[1]}/settle/resend",
        "/suppressions",
        "/suppressions/new",
    )
    for path in (*PATHS, *(f"/messages/{row}" for row in ids), *asked):
        page.goto(site.url + path)
        _check(page, Axe())
    page.goto(f"{site.url}/holds")
    for opener in ("Place a hold", "Lift…"):
        page.click(f"text={opener}")
        page.wait_for_selector("dialog[open]")
        _check(page, Axe())
        page.keyboard.press("Escape")
    page.goto(f"{site.url}/dead-letters")
    page.click("text=Retry group")
    page.wait_for_selector("dialog[open]")
    _check(page, Axe())
    assert found == []


def _check(page: "Page", axe: object) -> None:
    results = axe.run(page)  # type: ignore[attr-defined]
    assert results.violations_count == 0, (page.url, results.generate_report())
    wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wider <= 0, (page.url, wider)


def test_a_message_changes_before_ones_eyes_and_then_polling_stops(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    row = here.message("pending")
    enter(page)
    page.goto(f"{site.url}/messages/{row}")
    page.wait_for_selector(".title .badge:has-text('Pending')")
    page.evaluate("document.querySelector('#live').setAttribute('data-mark', 'old')")
    set_state(here, row, state="sent", sent_at=here.now, finished_at=here.now, payload=None, key_id=None)
    page.wait_for_selector(".title .badge:has-text('Sent')")
    assert page.locator("#live[hx-get]").count() == 0


def test_a_dead_letter_is_retried_through_the_dialog(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    rows = here.messages(3, "failed")
    enter(page)
    page.goto(f"{site.url}/dead-letters")
    opener = page.locator("button:has-text('Retry group')")
    opener.click()
    page.wait_for_selector("dialog[open]")
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate(
            "document.activeElement === document.body || document.activeElement.closest('dialog') !== null"
        )
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    assert page.evaluate("document.activeElement.textContent").startswith("Retry group")
    opener.click()
    page.click("dialog button:has-text('Retry')")
    page.wait_for_selector("text=3 retried, 0 skipped")
    assert {here.state(row) for row in rows} == {"pending"}
    page.reload()
    page.go_back()
    assert {here.value(row, "retries") for row in rows} == {1}


def test_no_poll_is_sent_while_a_row_is_ticked(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    here.messages(3, "failed")
    enter(page)
    page.goto(f"{site.url}/messages")
    _poll_often(page)
    _wait_for_polls(page, site, 2)
    box = page.locator("[data-select-all] input")
    page.locator("input[name=ids]").first.check()
    assert box.evaluate("box => box.indeterminate")
    assert page.locator("#status").text_content() == "1 selected"
    box.check()
    assert page.locator("#status").text_content() == "3 selected"
    before = _wait_for_silence(page, site)
    box.uncheck()
    page.evaluate("document.activeElement.blur()")
    _wait_for_polls(page, site, before + 1)


def test_focus_selection_and_a_hidden_tab_hold_polls_too(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    here.messages(3, "failed")
    enter(page)
    page.goto(f"{site.url}/messages")
    _poll_often(page)
    _wait_for_polls(page, site, 1)
    page.locator("#live a").first.focus()
    _wait_for_silence(page, site)
    page.evaluate("document.activeElement.blur()")
    page.evaluate("document.getSelection().selectAllChildren(document.querySelector('#live tbody'))")
    _wait_for_silence(page, site)
    assert page.evaluate("document.getSelection().toString().length") > 20
    page.evaluate("document.getSelection().removeAllRanges()")
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true})")
    _wait_for_silence(page, site)


def test_the_live_switch_stops_polls_and_is_remembered(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    here.messages(3, "failed")
    enter(page)
    page.goto(f"{site.url}/messages")
    page.click("button:has-text('Live')")
    assert page.locator("button.live").get_attribute("aria-pressed") == "false"
    page.reload()
    assert page.locator("button.live").get_attribute("aria-pressed") == "false"
    _poll_often(page)
    before = _wait_for_silence(page, site)
    page.click("button.live")
    page.evaluate("document.activeElement.blur()")
    _wait_for_polls(page, site, before + 1)


def test_when_the_database_is_away_the_old_rows_stay_and_are_called_stale(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    here.messages(3, "failed")
    enter(page)
    page.goto(f"{site.url}/messages")
    with here.engine.begin() as db:
        db.execute(sa.text("ALTER TABLE email_outbox RENAME TO away"))
    _poll_often(page)
    page.wait_for_selector("#stale:has-text('Stale since')")
    assert page.locator("tr[id^=m-]").count() == 3
    with here.engine.begin() as db:
        db.execute(sa.text("ALTER TABLE away RENAME TO email_outbox"))
    page.wait_for_selector("#stale:empty", state="attached")


def test_slash_searches_but_not_inside_a_field(page: "Page", site: Site, enter: Enter) -> None:
    enter(page)
    page.goto(f"{site.url}/messages")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.type("a/b")
    assert page.input_value("[name=q]") == "a/b"


def test_after_sign_out_back_shows_nothing_and_storage_is_empty(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    row = here.message("failed", idempotency_key="a-secret-key")
    enter(page)
    page.goto(f"{site.url}/messages/{row}")
    assert "a-secret-key" in page.content()
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0
    page.click("text=Sign out")
    page.wait_for_url(f"{site.url}/login")
    page.go_back()
    page.wait_for_url("**/login**")
    assert "a-secret-key" not in page.content()


def test_an_ended_session_leads_a_polling_page_to_the_sign_in(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    enter(page)
    page.goto(f"{site.url}/messages?state=failed")
    with here.engine.begin() as db:
        db.execute(sa.delete(schema.console_session))
    _poll_often(page)
    page.wait_for_url(f"{site.url}/login?next=/messages?state%3Dfailed")


def test_everything_works_without_javascript(
    new_page: "Callable[..., Page]", site: Site, enter: Enter, here: Population
) -> None:
    rows = here.messages(60, "failed")
    page = new_page(java_script_enabled=False)
    enter(page)
    page.click("nav >> text=Messages")
    page.click(".chips >> text=Failed")
    page.click("text=Next page")
    page.click("text=Previous page")
    page.fill("[name=q]", "jane@example.com")
    page.click("button:has-text('Search')")
    assert page.locator("text=recipient j•••@example.com").count() == 1
    page.locator("input[name=ids]").first.check()
    page.locator("input[name=ids]").nth(1).check()
    page.click("button:has-text('Retry selected')")
    assert "Touches 2 of 2" in (page.locator("main").text_content() or "")
    page.click("main button:has-text('Retry')")
    assert "2 retried, 0 skipped" in " ".join((page.locator("main").text_content() or "").split())
    assert sum(here.state(row) == "pending" for row in rows) == 2
    page.select_option("[name=theme]", "dark")
    page.click("text=Apply")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.click("text=Sign out")
    assert page.locator("h1").text_content() == "Sign in"


def test_markup_in_data_runs_nowhere(page: "Page", site: Site, enter: Enter, here: Population) -> None:
    evil = "<img src=x onerror=alert(1)><script>alert(1)</script>"
    here.message(
        "failed", idempotency_key=evil, template_key=evil, recipient=f'"{evil}"@example.com', cause_hint=evil
    )
    found = complaints(page)
    page.on("dialog", lambda dialog: found.append("dialog"))
    enter(page)
    for path in PATHS:
        page.goto(site.url + path)
    assert found == []


def _poll_often(page: "Page") -> None:
    """The region's own trigger, at once and more often than a person could wait for."""
    page.evaluate(
        """window.hurry = setInterval(() => {
            const region = document.querySelector('#live[hx-get]');
            if (region) htmx.ajax(
                'GET', region.getAttribute('hx-get'), {source: region, target: region, swap: 'outerHTML'}
            );
        }, 150)"""
    )


def _wait_for_polls(page: "Page", site: Site, wanted: int) -> None:
    for _ in range(1200):
        if site.polls() >= wanted:
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{site.polls()} polls, {wanted} wanted")


def _wait_for_silence(page: "Page", site: Site) -> int:
    """Until none has come for five times as long as between two; gives their number. Polls that go on let it fail."""
    for _ in range(60):
        before = site.polls()
        page.wait_for_timeout(750)
        if site.polls() == before:
            return before
    raise AssertionError("polls are sent all the time")


def test_a_refused_question_says_why_instead_of_opening(
    page: "Page", site: Site, enter: Enter, here: Population
) -> None:
    row = here.message("failed")
    enter(page)
    page.goto(f"{site.url}/dead-letters/list?state=failed")
    page.check(f"input[value='{row}']")
    page.evaluate("document.querySelector('form[data-select] input[name=csrf]').value = 'of another session'")
    page.click("button[name=selected]")
    page.wait_for_selector("text=This form is no longer valid")
    assert here.state(row) == "failed"
