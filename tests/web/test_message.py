"""The page of one message."""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest

from outbox_admin.db import schema
from tests.support.clock import FakeClock
from tests.web.conftest import Visitor
from tests.web.population import KID, Population
from tests.web.reading import attribute, elements, field_of, links, text


def test_attempts_and_tries_are_told_apart(viewer: Visitor, population: Population) -> None:
    row = population.message("pending", attempts=2, tries=7)
    assert "2 of 8 · 7 tries" in text(viewer.page(f"/messages/{row}"))


def test_the_timeline_is_newest_first_with_causes_and_waits(
    operator: Visitor, population: Population
) -> None:
    row = population.message("sent", attempts=2, tries=2, route="primary", provider_id="4Q8xY")
    population.attempt(
        row, 1, cause_hint="450 4.2.1 the user is receiving mail too quickly", cause_ref="7f3a9c01d2e4b5a6"
    )
    page = text(operator.page(f"/messages/{row}"))
    first, second, last = page.index("Accepted by the relay"), page.index("Deferred"), page.index("Queued")
    assert first < second or page.index("Accepted by the relay") < last
    assert "SMTP 450 4.2.1" in page
    assert "the user is receiving mail too quickly" in page
    assert "ref 7f3a9c01d2e4b5a6" in page
    assert "next after 10 s" in page
    assert "4Q8xY" in page


def test_a_viewer_sees_neither_hint_nor_reference_nor_provider_id(
    viewer: Visitor, population: Population
) -> None:
    row = population.message(
        "sent", provider_id="4Q8xY", cause_hint="secret hint", cause_ref="7f3a9c01d2e4b5a6"
    )
    population.attempt(row, 1, cause_hint="secret hint", cause_ref="7f3a9c01d2e4b5a6")
    page = viewer.page(f"/messages/{row}")
    for hidden in ("4Q8xY", "secret hint", "7f3a9c01d2e4b5a6", "Reveal", "/retry"):
        assert hidden not in page


def test_a_reveal_shows_the_recipient_once_and_is_audited(operator: Visitor, population: Population) -> None:
    row = population.message("sent", recipient="jane@example.com")
    assert "jane@" not in operator.page(f"/messages/{row}")
    assert operator.get(f"/messages/{row}/reveal").status_code == 405
    answer = operator.post(f"/messages/{row}/reveal")
    assert "jane@example.com" in answer.get_data(as_text=True)
    assert answer.headers["Cache-Control"] == "private, no-store"
    page = operator.page(f"/messages/{row}")
    assert "jane@" not in page
    assert "Recipient revealed by operator" in text(page)
    assert [(entry.actor, entry.target) for entry in population.audits("reveal")] == [("operator", str(row))]


def test_reveals_are_limited_in_number(operator: Visitor, population: Population) -> None:
    row = population.message("sent")
    codes = [operator.post(f"/messages/{row}/reveal").status_code for _ in range(61)]
    assert codes == [200] * 60 + [429]


def test_retry_of_a_failed_row_starts_its_attempts_anew(operator: Visitor, population: Population) -> None:
    row = population.message("failed")
    answer = operator.post(f"/messages/{row}/retry")
    assert answer.headers["Location"] == f"/messages/{row}"
    page = text(operator.page(f"/messages/{row}"))
    assert "The message is queued again" in page
    assert "Retried by operator" in page
    assert "0 of 8 · 8 tries · retried by hand 1×" in page
    assert (population.state(row), population.value(row, "finished_at")) == ("pending", None)
    assert len(population.audits("retry")) == 1


def test_a_row_in_doubt_is_asked_about_first(operator: Visitor, population: Population) -> None:
    row = population.message("uncertain")
    answer = operator.post(f"/messages/{row}/retry", {"next": f"/messages/{row}"})
    assert answer.headers["Location"].startswith("/retry-plans/")
    assert population.state(row) == "uncertain"
    page = operator.page(answer.headers["Location"])
    assert "may have been delivered already: a retry can send a second copy" in text(page)
    plan = answer.headers["Location"].partition("?")[0]
    assert operator.post(f"{plan}/confirm", {"doubtful": "1"}).status_code == 303
    assert population.state(row) == "pending"


@pytest.mark.parametrize(("state", "button"), [("pending", "Cancel the message"), ("failed", "Dismiss it")])
def test_withdrawing_asks_first_and_clears_the_payload(
    operator: Visitor, population: Population, state: str, button: str
) -> None:
    row = population.message(state)
    page = text(operator.page(f"/messages/{row}/cancel"))
    assert "Touches 1 message" in page
    assert button in page
    assert operator.post(f"/messages/{row}/cancel").status_code == 303
    assert (population.state(row), population.value(row, "has_payload")) == ("cancelled", False)
    again = operator.post(f"/messages/{row}/cancel")
    assert again.status_code == 409
    assert [entry.result for entry in population.audits("cancel")] == ["done", "refused"]


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (f"key:{KID}", f"No worker holds key {KID}."),
        ("format", "sealed by a newer version"),
        ("unreadable", "cannot be opened"),
        ("alone", "A worker ended while it held this message."),
        ("hold:1", "Its hold is over"),
    ],
)
def test_a_held_row_says_what_it_waits_for(
    viewer: Visitor, population: Population, held: str, said: str
) -> None:
    row = population.message("pending", held=held)
    assert said in text(viewer.page(f"/messages/{row}"))


def test_a_missing_key_is_named_with_the_time_that_is_left(viewer: Visitor, population: Population) -> None:
    row = population.message("pending", held=f"key:{KID}")
    population.insert(
        schema.outbox_key,
        kid=KID,
        state="known",
        missing_since=population.now - timedelta(hours=1),
        created_at=population.now,
    )
    assert "no worker holds it; in 71 h the message is rejected" in text(viewer.page(f"/messages/{row}"))


def test_a_revoked_key_is_called_so_and_threatens_nothing(viewer: Visitor, population: Population) -> None:
    row = population.message("pending", held=f"key:{KID}")
    population.worker(key_ids=[], revoked_ids=[KID])
    long_ago = population.now - timedelta(hours=100)
    population.insert(
        schema.outbox_key, kid=KID, state="known", missing_since=long_ago, created_at=population.now
    )
    page = text(viewer.page(f"/messages/{row}"))
    assert f"Its key {KID} is revoked in the key ring." in page
    assert "revoked in the key ring; the message waits until somebody decides" in page
    assert "with the next cycle" not in page
    assert f"1 message waits for key {KID}, which the key ring calls revoked." in text(viewer.page("/"))


def test_a_finished_message_stops_polling(viewer: Visitor, population: Population) -> None:
    waiting, sent = population.message("pending"), population.message("sent")
    poll = attribute(viewer.page(f"/messages/{waiting}"), "div", "hx-get", id="live")
    assert viewer.poll(poll).status_code == 204
    assert not [one for _, one in elements(viewer.page(f"/messages/{sent}"), "div") if "hx-get" in one]


def test_the_other_recipients_are_linked(viewer: Visitor, population: Population) -> None:
    first = population.message("sent", idempotency_key="k", part=0)
    second = population.message("failed", idempotency_key="k", part=1)
    page = viewer.page(f"/messages/{first}")
    assert f"/messages/{second}" in page
    assert "part 1 failed" in text(page)


def test_an_unknown_message_is_404(viewer: Visitor) -> None:
    assert viewer.get(f"/messages/{uuid4()}").status_code == 404


def test_a_lease_that_ended_is_said(viewer: Visitor, population: Population, clock: FakeClock) -> None:
    row = population.message("sending", lease_until=population.now + timedelta(minutes=1))
    assert "held by mail-1:4711 for another 60 s" in text(viewer.page(f"/messages/{row}"))
    clock.advance(minutes=3)
    assert "which ended 2 min ago" in text(viewer.page(f"/messages/{row}")) or "120 s ago" in text(
        viewer.page(f"/messages/{row}")
    )


def test_a_simulated_message_is_never_called_sent(
    viewer: Visitor, population: Population, configured: Callable[..., object]
) -> None:
    row = population.message("sent", route="simulated", attempts=1, tries=1)
    page = text(viewer.page(f"/messages/{row}"))
    assert "Simulated: no relay is configured" in page
    assert "Accepted by the relay" not in page


def test_a_redirected_acceptance_is_told_once_and_names_where_it_went_in_part(
    viewer: Visitor, population: Population
) -> None:
    row = population.message("sent", attempts=1, tries=1, route="primary")
    population.attempt(row, 1, outcome="accepted", redirected_to="test@dev.example", cause_kind=None)
    page = viewer.page(f"/messages/{row}")
    assert "redirected to t•••@dev.example" in text(page)
    assert "test@dev.example" not in page
    assert text(page).count("Accepted") == 1


def test_a_template_is_held_from_one_of_its_messages(operator: Visitor, population: Population) -> None:
    row = population.message("pending")
    (url,) = [url for url in links(operator.page(f"/messages/{row}")) if "/holds/new" in url]
    form = operator.page(url)
    assert field_of(form, "value") == "account.verify"
    chosen = [found["value"] for _, found in elements(form, "input") if "checked" in found]
    assert chosen == ["template"]


def test_doubt_that_comes_from_a_copy_of_the_database_is_told_so(
    viewer: Visitor, population: Population
) -> None:
    row = population.message("uncertain", cause_kind="copied", cause_phase="lease")
    page = text(viewer.page(f"/messages/{row}"))
    assert "the database was copied, and its original may have sent it" in page
    assert "the hand-over began" not in page
