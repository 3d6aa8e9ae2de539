"""Settling a message in doubt, and how each state of a message reads."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask

from tests.support.clock import FakeClock
from tests.web.conftest import Visitor
from tests.web.population import Population
from tests.web.reading import links, text

ANSWERS = ("arrived", "resend", "give-up")


def test_a_message_in_doubt_says_since_when_and_offers_three_answers(
    operator: Visitor, population: Population
) -> None:
    row = population.message("uncertain", message_id="<m1@shop.example>", handover_at=population.now)
    page = operator.page(f"/messages/{row}")
    assert "In doubt for 2 min: the hand-over began and its end is not known." in text(page)
    assert "Look for its Message-ID in the relay's log" in text(page)
    assert "Hand-over began" in text(page)
    assert [f"/messages/{row}/settle/{answer}" in links(page) for answer in ANSWERS] == [True] * 3
    assert f"/messages/{row}/retry" not in page


def test_a_viewer_reads_the_doubt_and_gets_no_answer_to_press(
    viewer: Visitor, population: Population
) -> None:
    row = population.message("uncertain")
    page = viewer.page(f"/messages/{row}")
    assert "until somebody decides" in text(page)
    assert "/settle/" not in page
    assert viewer.get(f"/messages/{row}/settle/arrived").status_code == 403
    assert viewer.post(f"/messages/{row}/settle/arrived").status_code == 403
    assert population.state(row) == "uncertain"


@pytest.mark.parametrize(
    ("answer", "state", "result", "payload", "told", "deed"),
    [
        ("arrived", "sent", "arrived", False, "The message is settled: it arrived.", "Settled as arrived"),
        ("resend", "pending", "resend", True, "The message is queued again", "Settled: sent again"),
        ("give-up", "cancelled", "gave_up", False, "The message is given up.", "Settled: given up"),
    ],
)
def test_each_answer_asks_first_acts_once_and_is_audited(
    operator: Visitor,
    population: Population,
    answer: str,
    state: str,
    result: str,
    payload: bool,
    told: str,
    deed: str,
) -> None:
    row = population.message("uncertain", message_id="<m1@shop.example>")
    path = f"/messages/{row}/settle/{answer}"
    question = text(operator.page(path))
    assert "Touches 1 message." in question
    assert "<m1@shop.example>" in question
    assert population.state(row) == "uncertain"
    assert operator.post(path).headers["Location"] == f"/messages/{row}"
    assert (population.state(row), population.value(row, "has_payload")) == (state, payload)
    assert population.value(row, "maybe_delivered")
    page = text(operator.page(f"/messages/{row}"))
    assert told in page
    assert f"{deed} by operator" in page
    assert "Accepted by the relay" not in page  # nobody saw that
    again = operator.post(path)
    assert again.status_code == 409
    assert f"it is {state} now" in text(again.get_data(as_text=True))
    assert operator.get(path).status_code == 409
    assert [entry.result for entry in population.audits("settle")] == [result, "refused"]
    assert [entry.target for entry in population.audits("settle")] == [str(row)] * 2


def test_what_is_settled_as_arrived_is_not_called_a_possible_double(
    operator: Visitor, population: Population
) -> None:
    row = population.message("uncertain", tries=1)
    operator.post(f"/messages/{row}/settle/arrived")
    page = text(operator.page(f"/messages/{row}"))
    assert "Settled: somebody said that it arrived. The relay's own answer was never seen." in page
    assert "Possible double" not in page
    assert "two copies" not in page


def test_of_four_who_settle_at_the_same_moment_one_is_believed(
    app: Flask, operator: Visitor, population: Population
) -> None:
    row = population.message("uncertain")
    cookie = operator.client.get_cookie("outbox")
    assert cookie is not None

    def press(answer: str) -> int:
        client = app.test_client()
        client.set_cookie("outbox", cookie.value)
        return client.post(f"/messages/{row}/settle/{answer}", data={"csrf": operator.csrf}).status_code

    with ThreadPoolExecutor(4) as pool:
        codes = sorted(pool.map(press, ("arrived", "arrived", "give-up", "give-up")))
    assert codes == [303, 409, 409, 409]
    assert population.state(row) in ("sent", "cancelled")


def test_what_expired_meanwhile_is_not_sent_again(
    operator: Visitor, population: Population, clock: FakeClock
) -> None:
    row = population.message("uncertain", expires_at=population.now + timedelta(minutes=1))
    clock.advance(minutes=2)
    answer = operator.post(f"/messages/{row}/settle/resend")
    assert answer.status_code == 409
    assert "its time has passed" in text(answer.get_data(as_text=True))
    assert population.state(row) in ("uncertain", "expired")


def test_without_its_payload_it_can_be_settled_but_not_sent_again(
    operator: Visitor, population: Population
) -> None:
    row = population.message("uncertain", kept=False)
    page = operator.page(f"/messages/{row}")
    assert f"/messages/{row}/settle/resend" not in page
    assert "it cannot be sent again from here" in text(page)
    answer = operator.post(f"/messages/{row}/settle/resend")
    assert answer.status_code == 409
    assert "its payload is gone" in text(answer.get_data(as_text=True))
    assert operator.post(f"/messages/{row}/settle/arrived").status_code == 303


def test_an_answer_that_is_none_is_no_page(operator: Visitor, population: Population) -> None:
    row = population.message("uncertain")
    assert operator.post(f"/messages/{row}/settle/perhaps").status_code == 404
    assert population.state(row) == "uncertain"


def later(**given: float) -> Any:
    return lambda population: population.now + timedelta(**given)


STANDINGS: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "pending",
        {"due_at": later(hours=3), "not_before": later(hours=3)},
        "Scheduled",
        "Scheduled by the application: it goes out in 3 h, not before.",
    ),
    (
        "pending",
        {"due_at": later(seconds=40), "tries": 1},
        "Waiting to retry",
        "tried again by itself in 40 s",
    ),
    ("pending", {"due_at": later(minutes=-9)}, "Pending", "Due for 9 min and no worker has taken it yet."),
    ("failed", {}, "Failed", "It failed 2 min ago: its attempts are used up, and nothing is tried any more."),
    (
        "failed",
        {"cause_kind": "gave_up"},
        "Failed",
        "It failed 2 min ago: it waited too long and was given up",
    ),
    ("failed", {"maybe_delivered": True}, "Failed", "retry only if it is not there"),
    ("expired", {}, "Expired", "Its time passed before it could be sent"),
    ("cancelled", {}, "Cancelled", "It was withdrawn; its payload is cleared."),
    (
        "cancelled",
        {"cause_kind": "suppressed", "cause_phase": "prepare"},
        "Suppressed",
        "The recipient is on the suppression list",
    ),
    ("superseded", {}, "Superseded", "A newer message with the same supersede key took its place"),
    ("sent", {"maybe_delivered": True, "tries": 2}, "Possible double", "the recipient may have two copies"),
]


def test_each_state_says_what_is_since_when_and_what_to_do(viewer: Visitor, population: Population) -> None:
    for state, given, badge, said in STANDINGS:
        values = {name: value(population) if callable(value) else value for name, value in given.items()}
        row = population.message(state, **values)
        page = text(viewer.page(f"/messages/{row}"))
        assert badge in page, (state, given)
        assert said in page, (state, given)
    listed = text(viewer.page("/messages")).lower()
    assert [badge for _, _, badge, _ in STANDINGS if badge.lower() not in listed] == []


def test_a_superseded_message_leads_to_the_newer_one(viewer: Visitor, population: Population) -> None:
    earlier = population.now - timedelta(hours=1)
    old = population.message("superseded", supersede_key="cart:1", created_at=earlier)
    population.message("cancelled", supersede_key="cart:1")
    newer = population.message("sent", supersede_key="cart:1", created_at=population.now)
    assert f"/messages/{newer}" in links(viewer.page(f"/messages/{old}"))


def test_a_possible_double_is_marked_in_lists_and_can_be_filtered(
    viewer: Visitor, population: Population
) -> None:
    double, plain = population.message("sent", maybe_delivered=True, tries=2), population.message("sent")
    assert viewer.page("/messages").count(">possible double<") == 1
    found = viewer.page("/messages?doubles=1")
    assert f"/messages/{double}" in links(found)
    assert f"/messages/{plain}" not in links(found)
