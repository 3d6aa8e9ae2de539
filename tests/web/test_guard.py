"""The gate: every route against every role, and what a forged request gets."""

from collections.abc import Callable
from uuid import UUID

import pytest
import sqlalchemy as sa
from flask import Flask

from outbox_admin.db.schema import metadata
from outbox_admin.web.visit import Role
from tests.web.conftest import Visitor
from tests.web.population import Population

#: Who may use what. A route that is missing here fails the test: it has to be decided.
MATRIX = {
    ("outbox.overview.show", "GET"): "viewer",
    ("outbox.overview.fragment_show", "GET"): "viewer",
    ("outbox.messages.show", "GET"): "viewer",
    ("outbox.messages.fragment_show", "GET"): "viewer",
    ("outbox.messages.search", "POST"): "viewer",
    ("outbox.message.show", "GET"): "viewer",
    ("outbox.message.fragment_show", "GET"): "viewer",
    ("outbox.message.reveal", "POST"): "operator",
    ("outbox.message.retry", "POST"): "operator",
    ("outbox.message.ask_cancel", "GET"): "operator",
    ("outbox.message.cancel", "POST"): "operator",
    ("outbox.settle.ask", "GET"): "operator",
    ("outbox.settle.apply", "POST"): "operator",
    ("outbox.dead.show", "GET"): "viewer",
    ("outbox.dead.fragment_show", "GET"): "viewer",
    ("outbox.dead.listed", "GET"): "viewer",
    ("outbox.dead.fragment_listed", "GET"): "viewer",
    ("outbox.holds.show", "GET"): "viewer",
    ("outbox.holds.fragment_show", "GET"): "viewer",
    ("outbox.holds.ask", "GET"): "operator",
    ("outbox.holds.place", "POST"): "operator",
    ("outbox.holds.ask_lift", "GET"): "operator",
    ("outbox.holds.lift", "POST"): "operator",
    ("outbox.routes.probe", "POST"): "operator",
    ("outbox.suppressions.show", "GET"): "admin",
    ("outbox.suppressions.search", "POST"): "admin",
    ("outbox.suppressions.ask", "GET"): "admin",
    ("outbox.suppressions.add", "POST"): "admin",
    ("outbox.suppressions.ask_remove", "GET"): "admin",
    ("outbox.suppressions.remove", "POST"): "admin",
    ("outbox.retry.propose", "POST"): "operator",
    ("outbox.retry.show", "GET"): "operator",
    ("outbox.retry.fragment_show", "GET"): "operator",
    ("outbox.retry.confirm", "POST"): "operator",
    ("outbox.account.sign_in", "GET"): "anybody",
    ("outbox.account.enter", "POST"): "anybody",
    ("outbox.account.leave", "POST"): "viewer",
    ("outbox.frame.prefer", "POST"): "viewer",
    ("outbox.frame.static", "GET"): "anybody",
    ("outbox.probes.healthz", "GET"): "anybody",
    ("outbox.probes.readyz", "GET"): "anybody",
    ("outbox.probes.metrics", "GET"): "anybody",
}


def routes(app: Flask) -> list[tuple[str, str, str]]:
    """(endpoint, method, path) of every route, with a message's id where one is asked for."""
    adapter = app.url_map.bind("localhost")
    fill = {
        "row_id": UUID(int=1),
        "plan_id": UUID(int=2),
        "hold_id": UUID(int=3),
        "route": "primary",
        "digest": "0" * 12,
        "name": "app.css",
        "answer": "arrived",
    }
    return [
        (rule.endpoint, method, adapter.build(rule.endpoint, {name: fill[name] for name in rule.arguments}))
        for rule in app.url_map.iter_rules()
        for method in sorted((rule.methods or set()) & {"GET", "POST", "PUT", "DELETE", "PATCH"})
    ]


def contents(engine: sa.Engine) -> dict[str, list[object]]:
    with engine.connect() as db:
        return {
            table.name: sorted(map(repr, db.execute(sa.select(table))))
            for table in metadata.sorted_tables
            if table.name not in ("console_session", "audit_entry", "console_throttle")
        }


def ask(visitor: Visitor, method: str, path: str) -> int:
    headers = {"HX-Request": "true"} if "/_f/" in path else {}
    call = visitor.client.get if method == "GET" else visitor.client.post
    data = {"csrf": visitor.csrf} if method == "POST" else None
    return call(path, data=data, headers=headers).status_code


def test_s22_every_route_is_in_the_matrix(app: Flask) -> None:
    assert {(endpoint, method) for endpoint, method, _ in routes(app)} == set(MATRIX)


def test_s21_anonymous_requests_reach_no_page(app: Flask, population: Population) -> None:
    population.user("somebody", "admin")
    for endpoint, method, path in routes(app):
        visitor = Visitor(app.test_client())
        if method == "POST":  # with the token of its own cookie, as a form of ours would
            visitor.get("/login")
        if MATRIX[endpoint, method] != "anybody":
            expected = {"GET": (401,) if "/_f/" in path else (303,), "POST": (303, 403)}[method]
            assert ask(visitor, method, path) in expected, endpoint


def test_an_anonymous_fragment_sends_the_browser_to_the_sign_in_page(
    visitor: Visitor, population: Population
) -> None:
    population.user("somebody", "viewer")
    answer = visitor.get(
        "/_f/messages",
        headers={"HX-Request": "true", "HX-Current-URL": "http://localhost/messages?state=failed"},
    )
    assert answer.status_code == 401
    assert answer.headers["HX-Redirect"] == "/login?next=/messages?state%3Dfailed"


@pytest.mark.parametrize("role", [role.value for role in Role])
def test_s22_each_role_gets_what_the_matrix_says(
    app: Flask, signed_in: Callable[[str], Visitor], engine: sa.Engine, role: str
) -> None:
    for endpoint, method, path in routes(app):
        if endpoint in ("outbox.account.leave", "outbox.account.enter"):
            continue
        visitor = _again(app, signed_in, role)
        before = contents(engine)
        code = ask(visitor, method, path)
        needed = MATRIX[endpoint, method]
        if needed != "anybody" and not Role(role).covers(Role(needed)):
            assert code == 403, endpoint
            assert contents(engine) == before, endpoint
        else:
            assert code not in (401, 403, 500), (endpoint, code)
            if method == "GET":
                assert contents(engine) == before, endpoint


_entered: dict[int, Visitor] = {}


def _again(app: Flask, signed_in: Callable[[str], Visitor], role: str) -> Visitor:
    """One sign-in for each application."""
    if id(app) not in _entered:
        _entered.clear()
        _entered[id(app)] = signed_in(role)
    return _entered[id(app)]


def test_a_view_that_declares_nothing_is_closed(operator: Visitor, app: Flask) -> None:
    view = app.view_functions["outbox.overview.show"]
    declared = view.outbox_access
    del view.outbox_access
    try:
        assert operator.get("/").status_code == 403
    finally:
        view.outbox_access = declared


def test_s32_a_post_without_the_sessions_own_token_changes_nothing(
    operator: Visitor, population: Population, app: Flask
) -> None:
    failed = population.message("failed")
    other = Visitor(app.test_client())
    other.sign_in("operator")
    path = f"/messages/{failed}/retry"
    assert operator.client.post(path).status_code == 403
    assert operator.client.post(path, data={"csrf": other.csrf}).status_code == 403
    assert operator.client.post(path, data={"csrf": "é" * 32}).status_code == 403
    assert population.state(failed) == "failed"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.test"},
        {"Origin": "null"},
    ],
)
def test_s33_a_post_from_another_site_is_refused_even_with_the_token(
    operator: Visitor, population: Population, headers: dict[str, str]
) -> None:
    failed = population.message("failed")
    assert operator.post(f"/messages/{failed}/retry", headers=headers).status_code == 403
    assert population.state(failed) == "failed"


@pytest.mark.parametrize(
    "page",
    [
        "//evil.test",
        "////evil.test",
        "/\\evil.test",
        "/\t/evil.test",
        "https:evil.test",
        "javascript:alert(1)",
        "/login",
    ],
)
def test_s40_next_never_leaves_the_console(visitor: Visitor, population: Population, page: str) -> None:
    population.user("somebody", "viewer")
    assert visitor.sign_in("somebody", next=page).headers["Location"] == "/"


def test_next_returns_to_the_page_that_was_asked_for(visitor: Visitor, population: Population) -> None:
    population.user("somebody", "viewer")
    wanted = visitor.get("/messages?state=failed").headers["Location"]
    assert wanted.startswith("/login?next=/messages")
    answer = visitor.sign_in("somebody", next="/messages?state=failed")
    assert answer.headers["Location"] == "/messages?state=failed"


def test_s41_an_unknown_host_is_refused_but_probes_are_not(configured: Callable[..., Flask]) -> None:
    client = configured(trusted_hosts=("mail.example.com",)).test_client()
    assert client.get("/login", headers={"Host": "evil.test"}).status_code == 400
    assert client.get("/nowhere", headers={"Host": "evil.test"}).status_code == 400
    assert client.get("/healthz", headers={"Host": "10.0.0.7"}).status_code == 200
    assert client.get("/login", headers={"Host": "mail.example.com"}).status_code == 503


def test_s31_s34_every_dynamic_answer_carries_the_headers(operator: Visitor) -> None:
    for path in ("/", "/messages", "/nowhere", "/login", "/healthz"):
        headers = operator.get(path).headers
        assert headers["Cache-Control"] == "private, no-store", path
        assert headers["Vary"] == "Cookie, HX-Request", path
        assert "default-src 'none'; script-src 'self'" in headers["Content-Security-Policy"], path
        assert "unsafe" not in headers["Content-Security-Policy"], path
        assert headers["Referrer-Policy"] == "same-origin", path
        assert headers["X-Content-Type-Options"] == "nosniff", path


def test_static_files_are_immutable_and_named_by_their_content(
    visitor: Visitor, population: Population
) -> None:
    population.user("somebody", "viewer")
    page = visitor.page("/login")
    path = next(part for part in page.split('"') if part.startswith("/static/") and part.endswith("app.css"))
    answer = visitor.get(path)
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer.content_type == "text/css; charset=utf-8"
    assert visitor.get("/static/000000000000/app.css").status_code == 404
    assert visitor.get(path.replace("app.css", "../templates/base.html")).status_code == 404


def test_a_fragment_opened_as_a_page_leads_to_its_page(viewer: Visitor) -> None:
    answer = viewer.get("/_f/messages?state=failed&v=abc&rows=xyz")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/messages?state=failed")


def test_an_unknown_address_tells_no_more_than_that(visitor: Visitor) -> None:
    answer = visitor.get("/nowhere")
    assert answer.status_code == 404
    assert "There is nothing at this address" in answer.get_data(as_text=True)
