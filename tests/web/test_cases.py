"""Cases of section H: markup in every field, retries pressed twice, retries of what is gone."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
import sqlalchemy as sa
from flask import Flask

from outbox_admin.db import schema
from tests.support.clock import FakeClock
from tests.web.conftest import Visitor
from tests.web.population import Population
from tests.web.reading import elements, text

EVIL = "</td><svg onload=alert(1)>{{7*7}}<script>alert(1)</script><img src=x onerror=alert(1)>"


def test_oc_60_markup_in_every_shown_field(operator: Visitor, population: Population) -> None:
    given = {
        "recipient": '"<img src=x onerror=alert(1)>"@example.com',
        "template_key": f'"><script>alert(1)</script>{EVIL}',
        "idempotency_key": f"k{EVIL}",
        "provider_id": EVIL,
        "message_id": EVIL,
        "route": EVIL,
        "correlation_id": EVIL,
        "supersede_key": EVIL,
        "cause_hint": EVIL,
        "cause_ref": EVIL,
        "cause_enhanced": EVIL,
        "cause_kind": EVIL,
        "cause_phase": EVIL,
        "claimed_by": EVIL,
        "held": f"key:{EVIL}",
        "key_id": EVIL,
    }
    states = ("pending", "sending", "sent", "failed", "rejected", "uncertain", "expired")
    ids = [population.message(state, **given | {"idempotency_key": f"{state}{EVIL}"}) for state in states]
    for row_id in ids:
        population.attempt(row_id, worker=EVIL, route=EVIL, outcome=EVIL, cause_kind=EVIL, cause_hint=EVIL)
    population.worker(
        host=EVIL, version=EVIL, kind=EVIL, state=EVIL, breakers={EVIL: {"kind": EVIL, "phase": EVIL}}
    )
    population.insert(
        schema.outbox_key, kid=EVIL, state="known", missing_since=population.now, created_at=population.now
    )
    population.minute(1, outcome=EVIL)
    for scope in ("template", "domain"):
        population.insert(
            schema.outbox_hold,
            id=uuid4(),
            scope=scope,
            value=EVIL,
            reason=EVIL,
            who=EVIL,
            created_at=population.now,
        )
    population.insert(
        schema.outbox_route,
        name=EVIL,
        breaker="open",
        probing_by=EVIL,
        cause_kind=EVIL,
        opened_at=population.now,
    )
    population.insert(
        schema.audit_entry,
        id=uuid4(),
        at=population.now,
        actor=EVIL,
        action=EVIL,
        target=str(ids[0]),
        result=EVIL,
    )
    pages = [
        "/",
        "/messages",
        f"/messages?q={EVIL}&template={EVIL}&key={EVIL}&state={EVIL}&sort={EVIL}",
        "/dead-letters",
        "/holds",
        f"/holds/new?scope=template&value={EVIL}",
        f"/messages/{ids[5]}/settle/arrived",
        f"/dead-letters/list?kind={EVIL}&phase={EVIL}&template={EVIL}",
        *(f"/messages/{row_id}" for row_id in ids),
        f"/messages/{ids[0]}/cancel",
    ]
    fragments = [
        "/_f/overview",
        "/_f/messages?rows=&v=",
        "/_f/dead-letters",
        "/_f/dead-letters/list",
        "/_f/holds",
    ]
    for path in pages:
        _is_clean(operator.page(path), path)
    for path in [*fragments, *(f"/_f/messages/{row_id}" for row_id in ids)]:
        answer = operator.poll(path)
        assert answer.status_code == 200
        _is_clean(answer.get_data(as_text=True), path)
    revealed = operator.post(f"/messages/{ids[0]}/reveal").get_data(as_text=True)
    _is_clean(revealed, "reveal")
    assert '"<img src=x onerror=alert(1)>"@example.com' in text(revealed)
    plan = operator.post("/retry-plans", {"ids": [str(row_id) for row_id in ids]}).headers["Location"]
    _is_clean(operator.page(plan), "plan")


def _is_clean(page: str, where: str) -> None:
    assert ">49<" not in page, where
    for tag, found in elements(page):
        assert not any(name.startswith("on") for name in found), (where, tag, found)
        assert tag != "img", where
        if tag == "script":
            assert found["src"].startswith("/static/"), where
        if tag == "svg":
            assert "onload" not in found, where
            assert found.get("class") in ("icon", "swatch") or found.get("role") == "img", where


def test_oc_61_retry_pressed_twice_at_the_same_moment(
    app: Flask, operator: Visitor, population: Population
) -> None:
    failed = population.message("failed", attempts=8, tries=9)
    cookie = operator.client.get_cookie("outbox")
    assert cookie is not None

    def press(_: int) -> int:
        client = app.test_client()
        client.set_cookie("outbox", cookie.value)
        return client.post(f"/messages/{failed}/retry", data={"csrf": operator.csrf}).status_code

    with ThreadPoolExecutor(4) as pool:
        codes = sorted(pool.map(press, range(4)))
    assert codes == [303, 409, 409, 409]
    assert population.state(failed) == "pending"
    assert (population.value(failed, "attempts"), population.value(failed, "tries")) == (0, 9)
    assert population.value(failed, "retries") == 1
    assert [entry.result for entry in population.audits("retry")].count("done") == 1


@pytest.mark.parametrize(
    ("state", "said"),
    [("pending", "already queued"), ("sending", "a worker is sending it"), ("sent", "already sent")],
)
def test_oc_61_a_second_press_after_the_worker_moved_on(
    operator: Visitor, population: Population, state: str, said: str
) -> None:
    row = population.message(state)
    before = population.value(row, "attempts")
    answer = operator.post(f"/messages/{row}/retry")
    assert answer.status_code == 409
    assert said in text(answer.get_data(as_text=True))
    assert (population.state(row), population.value(row, "attempts")) == (state, before)


def test_oc_61_two_people_at_once(signed_in: Callable[[str], Visitor], population: Population) -> None:
    failed = population.message("failed")
    one, two = signed_in("operator"), signed_in("admin")
    plans = [visitor.post("/retry-plans", {"ids": str(failed)}).headers["Location"] for visitor in (one, two)]
    for visitor, plan in zip((one, two), plans, strict=True):
        assert visitor.post(f"{plan.partition('?')[0]}/confirm").status_code == 303
    assert "1 retried, 0 skipped" in text(one.page(plans[0]))
    assert "0 retried, 1 skipped" in text(two.page(plans[1]))
    assert population.value(failed, "retries") == 1


def test_oc_62_retry_of_a_message_whose_payload_is_gone(
    operator: Visitor, population: Population, clock: FakeClock
) -> None:
    good = population.messages(10, "failed")
    gone = [
        population.message("rejected"),
        population.message("sent"),
        population.message("failed", kept=False),
    ]
    for row, said in zip(gone, ("cannot be retried", "already sent", "payload is gone"), strict=True):
        answer = operator.post(f"/messages/{row}/retry")
        assert answer.status_code == 409
        assert said in text(answer.get_data(as_text=True))
        page = operator.page(f"/messages/{row}")
        assert f"/messages/{row}/retry" not in page
        assert "No retry:" in text(page)
    assert operator.post(f"/messages/{uuid4()}/retry").status_code == 404
    plan = operator.post("/retry-plans", {"ids": [str(row) for row in (*good, *gone)]}).headers["Location"]
    assert "Touches 10 of 13: 1 payload is gone, 2 no longer failed" in text(operator.page(plan))
    operator.post(f"{plan.partition('?')[0]}/confirm")
    assert "10 retried, 3 skipped of 13" in text(operator.page(plan))
    assert [population.state(row) for row in gone] == ["rejected", "sent", "failed"]
    assert {population.state(row) for row in good} == {"pending"}


def test_oc_62_no_button_where_there_is_no_payload(operator: Visitor, population: Population) -> None:
    population.message("failed", kept=False)
    population.message("rejected")
    for path in ("/messages", "/dead-letters/list?state=failed", "/dead-letters/list?state=rejected"):
        page = operator.page(path)
        assert not [found for _, found in elements(page, "input") if found.get("name") == "ids"], path
        assert "formaction" not in page, path


def test_no_page_ever_selects_a_payload_or_a_sealed_detail(
    app: Flask, engine: sa.Engine, operator: Visitor, population: Population
) -> None:
    failed = population.message("failed", detail=b"sealed detail")
    population.message("pending", held="key:0102030405060708")
    population.attempt(failed, detail=b"sealed detail")
    population.worker()
    seen: list[str] = []

    def note(_c: object, _u: object, statement: str, *_: object) -> None:
        seen.append(" ".join(statement.split()))

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        for path in ("/", "/messages", "/messages?q=x&template=y", f"/messages/{failed}", "/dead-letters"):
            operator.page(path)
        operator.page("/dead-letters/list?state=failed")
        operator.poll(f"/_f/messages/{failed}")
        plan = operator.post("/retry-plans", {"ids": str(failed)}).headers["Location"]
        operator.page(plan)
        operator.post(f"{plan.partition('?')[0]}/confirm")
        operator.page(plan)
        operator.post(f"/messages/{failed}/reveal")
        operator.post(f"/messages/{failed}/cancel")
        for answer in ("arrived", "resend", "give-up"):
            doubt = population.message("uncertain")
            operator.page(f"/messages/{doubt}/settle/{answer}")
            operator.post(f"/messages/{doubt}/settle/{answer}")
        operator.post("/holds", {"scope": "everything", "reason": "x"})
        operator.page("/holds")
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)
    assert len(seen) > 60
    for statement in seen:
        assert "*" not in statement.replace("count(*)", "").replace("EXISTS (SELECT *", ""), statement
        given = (
            statement.partition(" WHERE ")[0]
            if statement.startswith("SELECT")
            else (statement.partition(" RETURNING ")[2])
        )
        for column in ("payload", "detail"):
            words = given.replace("has_payload", "").replace("payload_size", "").replace("payload_since", "")
            assert column not in words, statement
