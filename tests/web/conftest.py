"""A console over a real database, with a clock that the test turns, and browsers that keep cookies."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from flask.testing import FlaskClient
from jinja2.bccache import Bucket, BytecodeCache
from werkzeug.test import TestResponse

from outbox_admin.web import WebSettings, create_app
from tests.support.clock import FakeClock
from tests.web.population import PASSWORD, Population
from tests.web.reading import field_of

SETTINGS = WebSettings(
    secret=b"a secret of the tests, long enough..", environment="test", secure=False, version="0.1.0"
)


class Compiled(BytecodeCache):
    """In memory: each test has an application of its own, and to compile its templates takes longer than most tests."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._known:
            bucket.bytecode_from_string(self._known[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._known[bucket.key] = bucket.bytecode_to_string()


Flask.jinja_options = {"bytecode_cache": Compiled()}


@dataclass
class Visitor:
    """A browser without JavaScript: keeps cookies, fills the form's token."""

    client: FlaskClient
    root: str = ""
    csrf: str = field(default="", repr=False)

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.client.get(self.root + path, **options)

    def post(self, path: str, data: dict[str, Any] | None = None, **options: Any) -> TestResponse:
        return self.client.post(self.root + path, data={"csrf": self.csrf, **(data or {})}, **options)

    def page(self, path: str) -> str:
        answer = self.get(path)
        assert answer.status_code == 200, (path, answer.status_code)
        return answer.get_data(as_text=True)

    def poll(self, path: str) -> TestResponse:
        return self.get(
            path, headers={"HX-Request": "true", "HX-Current-URL": f"http://localhost{self.root}/"}
        )

    def sign_in(self, name: str, password: str = PASSWORD, **more: str) -> TestResponse:
        form = self.get("/login").get_data(as_text=True)
        self.csrf = field_of(form, "csrf")
        answer = self.post("/login", {"name": name, "password": password, **more})
        if answer.status_code == 303:
            self.csrf = field_of(self.page("/holds"), "csrf")  # a small page
        return answer


@pytest.fixture
def population(engine: sa.Engine, clock: FakeClock) -> Population:
    return Population(engine, clock.now())


@pytest.fixture
def settings() -> WebSettings:
    return SETTINGS


@pytest.fixture
def app(engine: sa.Engine, clock: FakeClock, settings: WebSettings) -> Flask:
    return create_app(settings, engine=engine, clock=clock)


@pytest.fixture
def configured(engine: sa.Engine, clock: FakeClock) -> Callable[..., Flask]:
    """A console with other settings: `configured(secure=True)`."""
    return lambda **changed: create_app(replace(SETTINGS, **changed), engine=engine, clock=clock)


@pytest.fixture
def visitor(app: Flask) -> Visitor:
    return Visitor(app.test_client())


@pytest.fixture
def signed_in(app: Flask, population: Population) -> Callable[[str], Visitor]:
    """`signed_in("operator")`: a visitor whose account has that role and its name."""

    def enter(role: str) -> Visitor:
        population.user(role, role)
        one = Visitor(app.test_client())
        assert one.sign_in(role).status_code == 303
        return one

    return enter


@pytest.fixture
def viewer(signed_in: Callable[[str], Visitor]) -> Visitor:
    return signed_in("viewer")


@pytest.fixture
def operator(signed_in: Callable[[str], Visitor]) -> Visitor:
    return signed_in("operator")


@pytest.fixture
def admin(signed_in: Callable[[str], Visitor]) -> Visitor:
    return signed_in("admin")
