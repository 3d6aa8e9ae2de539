"""Signing in and out: what a guesser, a thief and somebody who went to lunch get."""

import os
from collections.abc import Callable
from datetime import timedelta

import pytest
import sqlalchemy as sa
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from flask import Flask

from outbox_admin.db import schema
from outbox_admin.db.store import users
from outbox_admin.web import passwords
from tests.support.clock import FakeClock
from tests.web.conftest import Visitor
from tests.web.population import PASSWORD, Population
from tests.web.reading import field_of, text


def test_without_any_account_every_page_is_locked_and_names_the_command(visitor: Visitor) -> None:
    for path in ("/", "/login", "/messages"):
        answer = visitor.get(path)
        assert answer.status_code == 503
        assert "outbox-admin users add NAME --role admin" in answer.get_data(as_text=True)
    assert visitor.get("/healthz").status_code == 200


def test_a_disabled_account_does_not_unlock(visitor: Visitor, population: Population) -> None:
    population.user("gone", "admin", disabled_at=population.now)
    assert visitor.get("/login").status_code == 503


def test_a_wrong_password_and_an_unknown_name_look_the_same(visitor: Visitor, population: Population) -> None:
    population.user("alice", "viewer")
    wrong = visitor.sign_in("alice", "not this one")
    unknown = visitor.sign_in("mallory", "not this one")
    assert wrong.status_code == unknown.status_code == 422

    def body(answer: object) -> str:
        page = answer.get_data(as_text=True)  # type: ignore[attr-defined]
        return text(page.replace("mallory", "alice")).partition("request")[0]

    assert body(wrong) == body(unknown)
    assert "Name or password is wrong." in body(wrong)


def test_a_name_with_nul_is_a_wrong_name(visitor: Visitor, population: Population) -> None:
    population.user("alice", "viewer")
    assert visitor.sign_in("mall\0ory", "not this one").status_code == 422


def test_s24_a_weak_hash_is_renewed_at_sign_in(
    visitor: Visitor, population: Population, engine: sa.Engine
) -> None:
    weak = Argon2id(salt=os.urandom(16), length=32, iterations=1, lanes=1, memory_cost=64)
    population.user("alice", "viewer", password_hash=weak.derive_phc_encoded(PASSWORD.encode()))
    assert visitor.sign_in("alice").status_code == 303
    with engine.connect() as db:
        stored = db.execute(sa.select(schema.console_user.c.password_hash)).scalar_one()
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert visitor.get("/").status_code == 200


def test_s25_the_sixth_bad_try_waits_and_so_does_the_right_password(
    visitor: Visitor, population: Population, clock: FakeClock
) -> None:
    population.user("alice", "viewer")
    for _ in range(5):
        assert visitor.sign_in("alice", "wrong").status_code == 422
    answer = visitor.sign_in("alice")
    assert answer.status_code == 429
    assert answer.headers["Retry-After"] == "30"
    clock.advance(seconds=31)
    assert visitor.sign_in("alice", "wrong").status_code == 422
    assert visitor.sign_in("alice").headers["Retry-After"] == "60"
    clock.advance(seconds=61)
    assert visitor.sign_in("alice").status_code == 303


def test_s25_the_wait_doubles_up_to_a_quarter_of_an_hour(
    visitor: Visitor, population: Population, clock: FakeClock
) -> None:
    population.user("alice", "viewer")
    waits, tries, start = [], 0, clock.now()
    while clock.now() - start < timedelta(hours=1):
        answer = visitor.sign_in("alice", "wrong")
        if answer.status_code == 429:
            waits.append(int(answer.headers["Retry-After"]))
            clock.advance(seconds=waits[-1])
        else:
            tries += 1
    assert waits[:7] == [30, 60, 120, 240, 480, 900, 900]
    assert tries < 100


def test_an_unknown_name_is_throttled_like_a_known_one(visitor: Visitor, population: Population) -> None:
    population.user("alice", "viewer")
    codes = [visitor.sign_in("mallory", "wrong").status_code for _ in range(6)]
    assert codes == [422] * 5 + [429]


def test_one_address_cannot_try_many_names(visitor: Visitor, population: Population) -> None:
    population.user("alice", "viewer")
    codes = [visitor.sign_in(f"name{number}", "wrong").status_code for number in range(31)]
    assert codes == [422] * 30 + [429]


def test_s37_a_forwarded_address_is_ignored_unless_a_proxy_is_configured(
    configured: Callable[..., Flask], population: Population
) -> None:
    population.user("alice", "viewer")
    visitor = Visitor(configured().test_client())
    visitor.get("/login")
    for number in range(31):
        form = visitor.get("/login").get_data(as_text=True)
        visitor.csrf = field_of(form, "csrf")
        answer = visitor.post(
            "/login",
            {"name": f"n{number}", "password": "x"},
            headers={"X-Forwarded-For": f"203.0.113.{number}"},
        )
    assert answer.status_code == 429


def test_s27_the_session_id_changes_at_sign_in(
    visitor: Visitor, population: Population, engine: sa.Engine
) -> None:
    population.user("alice", "viewer")
    planted = "p" * 43
    visitor.client.set_cookie("outbox", planted)
    assert visitor.sign_in("alice").status_code == 303
    cookie = visitor.client.get_cookie("outbox")
    assert cookie is not None
    assert cookie.value != planted
    with engine.connect() as db:
        stored = list(db.execute(sa.select(schema.console_session.c.token_hash)).scalars())
    assert len(stored) == 1
    assert cookie.value not in stored[0]


def test_s28_an_idle_session_ends_and_polling_does_not_keep_it(viewer: Visitor, clock: FakeClock) -> None:
    for _ in range(7):
        clock.advance(minutes=5)
        last = viewer.poll("/_f/overview").status_code
    assert last == 401
    assert viewer.get("/").status_code == 303


def test_s28_activity_keeps_a_session_up_to_twelve_hours(viewer: Visitor, clock: FakeClock) -> None:
    for _ in range(35):
        clock.advance(minutes=20)
        assert viewer.get("/").status_code == 200
    clock.advance(minutes=21)
    assert viewer.get("/").status_code == 303


def test_s29_sign_out_ends_the_session_on_the_server(viewer: Visitor) -> None:
    cookie = viewer.client.get_cookie("outbox")
    assert cookie is not None
    answer = viewer.post("/logout")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")
    assert answer.headers["Clear-Site-Data"] == '"cache"'
    viewer.client.set_cookie("outbox", cookie.value)
    assert viewer.get("/").status_code == 303


def test_s29_disabling_or_a_new_password_ends_sessions_at_once(
    signed_in: Callable[[str], Visitor], engine: sa.Engine, clock: FakeClock
) -> None:
    one, two = signed_in("viewer"), signed_in("operator")
    with engine.begin() as db:
        users.disable(db, name="viewer", now=clock.now())
        users.set_password(db, name="operator", password_hash="x")
    assert one.get("/").status_code == 303
    assert two.get("/").status_code == 303


def test_s30_the_cookie_on_https(configured: Callable[..., Flask], population: Population) -> None:
    population.user("alice", "viewer")
    client = configured(secure=True).test_client()
    answer = client.get("/login", base_url="https://localhost")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-outbox=")
    assert set(cookie.split("; ")[1:]) == {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"}
    assert answer.headers["Strict-Transport-Security"].startswith("max-age=")


def test_s44_sign_ins_are_audited(visitor: Visitor, population: Population) -> None:
    population.user("alice", "viewer")
    visitor.sign_in("alice", "wrong")
    visitor.sign_in("alice")
    assert [(entry.target, entry.result) for entry in population.audits("sign-in")] == [
        ("alice", "refused"),
        ("alice", "done"),
    ]


def test_s26_at_most_two_hashes_at_once_and_the_third_is_told_to_wait(
    visitor: Visitor, population: Population, monkeypatch: pytest.MonkeyPatch
) -> None:
    population.user("alice", "viewer")
    monkeypatch.setattr(passwords, "_WAIT", 0.01)
    with passwords._at_once, passwords._at_once:
        answer = visitor.sign_in("alice")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert visitor.sign_in("alice").status_code == 303


def test_names_are_case_folded(visitor: Visitor, population: Population) -> None:
    population.user("alice", "viewer")
    assert visitor.sign_in("  ALICE ").status_code == 303


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_preferences_are_rendered_by_the_server(viewer: Visitor, theme: str) -> None:
    answer = viewer.post("/preferences", {"theme": theme, "density": "compact", "next": "/messages"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/messages")
    page = viewer.page("/messages")
    assert f'data-theme="{theme}"' in page
    assert 'data-density="compact"' in page
    viewer.post("/preferences", {"theme": '"><script>', "density": "compact"})
    assert f'data-theme="{theme}"' in viewer.page("/")
