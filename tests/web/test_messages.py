"""The list of messages: filters, places, searches, polls."""

import logging
from datetime import timedelta
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin.db import schema
from outbox_admin.db.reads import walks
from tests.web.conftest import Visitor
from tests.web.population import Population
from tests.web.reading import attribute, elements, links, text


def shown(page: str) -> list[str]:
    """Ids of the rows, from the top."""
    return [found["id"][2:] for _, found in elements(page, "tr") if found.get("id", "").startswith("m-")]


def follow(visitor: Visitor, page: str, rel: str) -> str | None:
    found = [one["href"] for _, one in elements(page, "a") if one.get("rel") == rel]
    return visitor.page(found[0]) if found else None


def test_an_empty_table_and_an_empty_result_differ(viewer: Visitor, population: Population) -> None:
    assert "No message yet." in text(viewer.page("/messages"))
    population.message("sent")
    assert "Nothing matches. Clear the filters" in text(viewer.page("/messages?state=failed"))
    assert "Nothing matches." in text(viewer.page("/messages?template=other"))


def test_states_filter_alone_and_together(viewer: Visitor, population: Population) -> None:
    ids = {state: str(population.message(state)) for state in ("pending", "sent", "failed", "cancelled")}
    assert shown(viewer.page("/messages?state=failed")) == [ids["failed"]]
    assert set(shown(viewer.page("/messages?state=failed&state=cancelled"))) == {
        ids["failed"],
        ids["cancelled"],
    }
    assert len(shown(viewer.page("/messages?state=nonsense"))) == 4


def test_a_state_of_a_later_version_stops_no_page(viewer: Visitor, population: Population) -> None:
    known = population.message("sent")
    strange = population.message("quarantined", finished_at=population.now)
    assert shown(viewer.page("/messages")) == [str(known)]
    assert "Sent" in text(viewer.page("/"))
    assert viewer.get(f"/messages/{strange}").status_code == 404


def test_overdue_shows_what_is_due_and_not_held(viewer: Visitor, population: Population) -> None:
    due = population.message("pending")
    population.message("pending", due_at=population.now + timedelta(minutes=1))
    held = population.message("pending", held="hold:1")
    assert shown(viewer.page("/messages?overdue=1")) == [str(due)]
    assert shown(viewer.page("/messages?held=1")) == [str(held)]


def test_text_finds_the_beginning_of_key_and_template(viewer: Visitor, population: Population) -> None:
    by_key = population.message("sent", idempotency_key="invoice:2026-031", template_key="x")
    by_template = population.message("sent", template_key="invoice.notice")
    wild = population.message("sent", idempotency_key="100%_sure")
    assert set(shown(viewer.page("/messages?q=invoice"))) == {str(by_key), str(by_template)}
    assert shown(viewer.page("/messages?q=invoice:2026-031")) == [str(by_key)]
    assert "key is “invoice:2026-031”" in text(viewer.page("/messages?q=invoice:2026-031"))
    assert shown(viewer.page("/messages?q=100%25_")) == [str(wild)]
    assert shown(viewer.page("/messages?template=invoice.notice")) == [str(by_template)]


def test_an_exact_id_leads_to_the_message(viewer: Visitor, population: Population) -> None:
    row = population.message("sent")
    for given in (str(row), row.hex):
        answer = viewer.get(f"/messages?q={given}")
        assert (answer.status_code, answer.headers["Location"]) == (303, f"/messages/{row}")


def test_s43_a_recipient_is_searched_without_standing_in_any_address_or_log(
    viewer: Visitor, population: Population, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wanted = population.message(
        "sent", recipient="Jane.Doe@Example.com", recipient_key="jane.doe@example.com"
    )
    population.message("sent", recipient="other@example.com")
    answer = viewer.post("/messages/search", {"q": " Jane.Doe@Example.com ", "state": "sent"})
    target = answer.headers["Location"]
    assert answer.status_code == 303
    assert "state=sent" in target
    page = viewer.page(target)
    assert shown(page) == [str(wanted)]
    assert "recipient j•••@example.com" in text(page)
    assert "jane" not in (target + page + caplog.text).casefold()
    assert len(shown(viewer.page(target[:-4] + "AAAA"))) == 2


def test_what_is_no_address_is_said(viewer: Visitor) -> None:
    answer = viewer.post("/messages/search", {"q": "two@@example"})
    assert "That is not a valid address." in text(viewer.page(answer.headers["Location"]))
    assert "That is not a valid address." not in text(viewer.page("/messages"))


def test_s42_no_list_shows_a_whole_recipient(viewer: Visitor, population: Population) -> None:
    for state in ("pending", "sent", "failed", "rejected", "uncertain"):
        row = population.message(state, recipient="secret.person@example.com")
    for path in ("/", "/messages", f"/messages/{row}", "/dead-letters", "/dead-letters/list?state=failed"):
        assert "secret.person" not in viewer.page(path), path


def test_paging_forward_and_back_during_inserts_shows_each_row_once(
    viewer: Visitor, population: Population, engine: sa.Engine
) -> None:
    ids = [str(row) for row in population.messages(1000, "sent")]
    seen: list[str] = []
    page: str | None = viewer.page("/messages?size=100")
    pages = []
    while page is not None:
        pages.append(page)
        seen += shown(page)
        population.messages(3, "sent")
        page = follow(viewer, page, "next")
    assert seen == list(reversed(ids))
    page = pages[-1]
    back = shown(page)
    while len(back) < 1000:
        page = follow(viewer, page, "prev")
        assert page is not None
        back = shown(page) + back
    assert back == list(reversed(ids))


def test_a_tampered_place_shows_the_first_page_and_says_so(viewer: Visitor, population: Population) -> None:
    population.messages(30, "sent")
    page = viewer.page("/messages?size=25")
    address = next(one["href"] for _, one in elements(page, "a") if one.get("rel") == "next")
    broken = viewer.page(address[:-6] + "abcdef")
    assert "That place in the list is not known" in text(broken)
    assert shown(broken) == shown(page)


def test_due_time_orders_one_live_state_only(viewer: Visitor, population: Population) -> None:
    late, soon = (
        population.message("pending", due_at=population.now + timedelta(minutes=minutes))
        for minutes in (9, 3)
    )
    page = viewer.page("/messages?state=pending&sort=due")
    assert shown(page) == [str(soon), str(late)]
    assert attribute(page, "th", "aria-sort") == "ascending"
    turned = viewer.page("/messages?state=pending&sort=due&order=desc")
    assert shown(turned) == [str(late), str(soon)]
    assert attribute(turned, "th", "aria-sort") == "descending"
    plain = viewer.page("/messages?sort=due")
    assert shown(plain) == [str(soon), str(late)]
    assert attribute(plain, "th", "aria-sort") == "descending"


@pytest.mark.parametrize("sort", ["due", "attempts"])
def test_pages_in_another_order_are_complete(viewer: Visitor, population: Population, sort: str) -> None:
    ids = set(map(str, population.messages(60, "pending", attempts=2)))
    seen: list[str] = []
    page: str | None = viewer.page(f"/messages?state=pending&sort={sort}&size=25")
    while page is not None:
        seen += shown(page)
        page = follow(viewer, page, "next")
    assert (len(seen), set(seen)) == (60, ids)


def test_a_poll_keeps_the_rows_and_tells_of_newer_ones(viewer: Visitor, population: Population) -> None:
    ids = population.messages(3, "pending")
    page = viewer.page("/messages")
    poll = attribute(page, "div", "hx-get", id="live")
    assert viewer.poll(poll).status_code == 204
    population.messages(2, "pending")
    with viewer_engine(population).begin() as db:
        db.execute(
            sa.update(schema.email_outbox)
            .where(schema.email_outbox.c.id == ids[0])
            .values(state="sent", sent_at=population.now)
        )
    answer = viewer.poll(poll)
    fragment = answer.get_data(as_text=True)
    assert answer.status_code == 200
    assert shown(fragment) == shown(page)
    assert "2 newer – show" in text(fragment)
    assert "Sent" in text(fragment)
    assert viewer.poll(attribute(fragment, "div", "hx-get", id="live")).status_code == 204


def viewer_engine(population: Population) -> sa.Engine:
    return population.engine


def test_a_search_without_index_ends_at_its_window_and_can_go_on(
    viewer: Visitor, population: Population, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "WINDOW", 10)
    old = population.message("sent", template_key="rare")
    population.messages(30, "sent")
    page = viewer.page("/messages?template=rare")
    hops = 0
    while str(old) not in shown(page):
        address = next(link for link in links(page) if "after=" in link)
        page = viewer.page(address)
        hops += 1
    assert hops == 2


def test_s50_whatever_stands_in_the_address_is_clamped(viewer: Visitor, population: Population) -> None:
    population.message("sent")
    for query in (
        "size=100000000",
        "size=-1",
        "rows=%00%ff",
        "after=%00",
        "q=%00x",
        "state=%00",
        "q=" + "x" * 5000,
    ):
        assert viewer.get(f"/messages?{query}").status_code == 200, query
        assert viewer.poll(f"/_f/messages?{query}").status_code == 200, query
    for path in ("/messages/not-an-id", "/dead-letters/list?code=99999999999&state=nonsense"):
        assert viewer.get(path).status_code in (200, 404)
    assert viewer.get("/?range=100000d").status_code == 200


def test_only_rows_that_can_be_retried_have_a_box(operator: Visitor, population: Population) -> None:
    failed = population.message("failed")
    population.message("sent")
    page = operator.page("/messages")
    assert [UUID(one["value"]) for _, one in elements(page, "input") if one.get("name") == "ids"] == [failed]
