"""Holds in the console: placed and lifted on a question page, told with reason, time and number everywhere."""

from datetime import timedelta
from uuid import UUID, uuid4

import sqlalchemy as sa

from outbox_admin.core.hold import Scope
from outbox_admin.db.schema import outbox_hold
from outbox_admin.db.store import holds as store
from tests.support.clock import FakeClock
from tests.web.conftest import Visitor
from tests.web.population import Population
from tests.web.reading import elements, links, text


def place(
    population: Population, scope: Scope = Scope.EVERYTHING, value: str = "", **given: timedelta
) -> UUID:
    until = population.now + given["lasts"] if "lasts" in given else None
    with population.engine.begin() as db:
        return store.place(
            db, scope=scope, value=value, reason="relay moves", who="alice", until=until, now=population.now
        )


def holds(population: Population) -> list[sa.Row[tuple[object, ...]]]:
    with population.engine.connect() as db:
        return list(db.execute(sa.select(outbox_hold)))


def test_placing_a_hold_asks_what_why_and_until_when(operator: Visitor, population: Population) -> None:
    page = operator.page("/holds/new")
    assert "Nothing that it covers is sent until it ends." in text(page)
    scopes = [found["value"] for _, found in elements(page, "input") if found.get("type") == "radio"]
    assert scopes == ["everything", "template", "domain"]
    answer = operator.post(
        "/holds", {"scope": "template", "value": " account.verify ", "reason": "wrong link", "lasts": "4h"}
    )
    assert answer.headers["Location"] == "/holds"
    (made,) = holds(population)
    assert (made.scope, made.value, made.reason, made.who) == (
        "template",
        "account.verify",
        "wrong link",
        "operator",
    )
    assert made.until == population.now + timedelta(hours=4)
    shown = text(operator.page("/holds"))
    assert "Template account.verify is held." in shown
    assert "wrong link by operator" in shown
    (entry,) = population.audits("hold")
    assert (entry.target, entry.result) == (f"{made.id} template account.verify", "done")


def test_pressed_twice_it_places_one_hold(operator: Visitor, population: Population) -> None:
    for _ in range(2):
        operator.post("/holds", {"scope": "everything", "reason": "relay moves", "lasts": ""})
    assert [(one.scope, one.until) for one in holds(population)] == [("everything", None)]


def test_a_hold_that_makes_no_sense_is_refused_with_the_field_and_kept_in_the_form(
    operator: Visitor, population: Population
) -> None:
    for form, said, field in (
        ({"scope": "everything", "reason": " "}, "The reason has 1 to 500 characters", "reason"),
        ({"scope": "everything", "reason": "x" * 501}, "The reason has 1 to 500 characters", "reason"),
        (
            {"scope": "template", "value": "", "reason": "why"},
            "The template has 1 to 200 characters",
            "value",
        ),
        ({"scope": "domain", "value": "no domain", "reason": "why"}, "The domain", "value"),
    ):
        answer = operator.post("/holds", form)
        assert answer.status_code == 422, form
        page = answer.get_data(as_text=True)
        assert said in text(page), form
        invalid = [found["name"] for _, found in elements(page, "input") if "aria-invalid" in found]
        assert invalid == [field], form
    assert holds(population) == []
    assert population.audits("hold") == []


def test_a_hold_is_told_on_every_page_with_reason_and_number(viewer: Visitor, population: Population) -> None:
    hold = place(population, Scope.DOMAIN, "example.com", lasts=timedelta(hours=2))
    rows = population.messages(3, held=f"hold:{hold.hex}")
    overview = text(viewer.page("/"))
    assert (
        "Mail to example.com is held for 0 s by alice: “relay moves”; it ends by itself in 2 h." in overview
    )
    assert "3 messages wait for it." in overview
    assert "Holds 1" in text(viewer.page("/messages"))
    page = text(viewer.page(f"/messages/{rows[0]}"))
    assert "Held for 0 s by alice: “relay moves” (mail to example.com)." in page
    assert "It goes out when the hold is lifted, or by itself in 2 h." in page
    listed = viewer.page("/holds")
    assert "Mail to example.com" in text(listed)
    assert not [url for url in links(listed) if "/holds/" in url]


def test_lifting_asks_with_the_number_acts_once_and_is_audited(
    operator: Visitor, population: Population
) -> None:
    hold = place(population)
    population.messages(2, held=f"hold:{hold.hex}")
    assert f"/holds/{hold}/lift" in links(operator.page("/"))
    question = text(operator.page(f"/holds/{hold}/lift"))
    assert "Touches 2 waiting messages" in question
    assert len(holds(population)) == 1
    assert operator.post(f"/holds/{hold}/lift").headers["Location"] == "/holds"
    assert holds(population) == []
    assert "The hold is lifted." in text(operator.page("/holds"))
    again = operator.post(f"/holds/{hold}/lift")
    assert again.status_code == 409
    assert "that hold is over, or somebody else has lifted it" in text(again.get_data(as_text=True))
    assert [(one.target, one.result) for one in population.audits("unhold")] == [
        (f"{hold} everything", "done"),
        (str(hold), "refused"),
    ]


def test_a_hold_that_is_over_is_told_nowhere(
    operator: Visitor, population: Population, clock: FakeClock
) -> None:
    hold = place(population, lasts=timedelta(minutes=10))
    clock.advance(minutes=11)
    assert "Nothing is held." in text(operator.page("/holds"))
    assert "relay moves" not in operator.page("/")
    assert operator.get(f"/holds/{hold}/lift").status_code == 404
    assert operator.get(f"/holds/{uuid4()}/lift").status_code == 404


def test_a_message_whose_hold_is_over_waits_for_a_worker_only(
    viewer: Visitor, population: Population
) -> None:
    row = population.message(held=f"hold:{uuid4().hex}")
    assert "Its hold is over; a worker gives it back to the queue." in text(viewer.page(f"/messages/{row}"))


def test_a_viewer_may_read_holds_and_touch_none(viewer: Visitor, population: Population) -> None:
    hold = place(population)
    assert viewer.get("/holds/new").status_code == 403
    assert viewer.post("/holds", {"scope": "everything", "reason": "x"}).status_code == 403
    assert viewer.post(f"/holds/{hold}/lift").status_code == 403
    assert len(holds(population)) == 1
