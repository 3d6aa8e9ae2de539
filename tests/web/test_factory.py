"""The console under any prefix, alone and inside a host's application; probes; a database that is away."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask, render_template_string, session
from flask_sqlalchemy import SQLAlchemy
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from outbox_admin.db import schema
from outbox_admin.web import WebSettings, create_app, mount
from tests.support.clock import FakeClock
from tests.web.conftest import SETTINGS, Visitor
from tests.web.population import Population
from tests.web.reading import elements, text

ADDRESS = "jane@example.com"
LEAVES = ("href", "action", "src", "formaction", "hx-get")


def walk(visitor: Visitor, population: Population, prefix: str) -> None:
    """Signs in, follows everything that stands on the pages, signs out."""
    failed = population.message("failed")
    population.messages(60, "sent")
    population.user("walker", "operator")
    assert visitor.sign_in("walker").headers["Location"] == f"{prefix}/"
    todo, seen = {f"{prefix}/"}, set()
    while todo:
        path = todo.pop()
        seen.add(path)
        answer = visitor.client.get(path)
        assert answer.status_code == 200, path
        if not path.endswith((".css", ".js", ".svg")):
            found = {
                one[name]
                for _, one in elements(answer.get_data(as_text=True))
                for name in LEAVES
                if one.get(name)
            }
            assert all(url.startswith((prefix + "/", "#")) for url in found), (path, found)
            links = {one["href"] for _, one in elements(answer.get_data(as_text=True), "a")}
            todo |= {
                url for url in links if url.startswith("/") and ("?" not in url or "state=failed" in url)
            } - seen
    assert f"{prefix}/messages/{failed}" in seen
    answer = visitor.post(f"/messages/{failed}/retry")
    assert answer.headers["Location"] == f"{prefix}/messages/{failed}"
    assert visitor.post("/logout").headers["Location"] == f"{prefix}/login"


@pytest.mark.parametrize("prefix", ["", "/a/b"])
def test_a_full_walk_under_a_prefix(
    configured: Callable[..., Flask], population: Population, prefix: str
) -> None:
    walk(Visitor(configured(url_prefix=prefix).test_client(), prefix), population, prefix)


def test_a_full_walk_where_a_server_mounts_the_application(app: Flask, population: Population) -> None:
    client = Client(DispatcherMiddleware(Flask("front"), {"/a/b": app}))
    walk(Visitor(client, "/a/b"), population, "/a/b")  # type: ignore[arg-type]


def test_inside_a_host_with_its_own_instance_session_and_templates(
    engine: sa.Engine, clock: FakeClock, population: Population
) -> None:
    host = Flask("host")
    host.secret_key = "the host's own"
    url = engine.url.render_as_string(hide_password=False)
    host.config["SQLALCHEMY_DATABASE_URI"] = url.replace("postgresql://", "postgresql+psycopg://")
    db = SQLAlchemy(host)

    @host.get("/")
    def home() -> str:
        session["cart"] = 3
        return render_template_string("host {{ frame is defined }}")

    mount(host, db=db, url_prefix="/outbox", settings=SETTINGS, clock=clock)
    client = host.test_client()
    assert client.get("/").get_data(as_text=True) == "host False"
    walk(Visitor(client, "/outbox"), population, "/outbox")
    with client.session_transaction() as kept:
        assert dict(kept) == {"cart": 3}
    assert "Content-Security-Policy" not in client.get("/").headers
    with host.app_context():
        db.engine.dispose()


def test_probes_tell_nothing_but_their_word(app: Flask) -> None:
    client = app.test_client()
    assert client.get("/healthz").get_json() == {"status": "ok"}
    assert client.get("/readyz").get_json() == {"status": "ready"}


def test_s23_metrics_need_their_token(configured: Callable[..., Flask], population: Population) -> None:
    population.message("pending")
    assert configured().test_client().get("/metrics").status_code == 404
    client = configured(metrics_token="letmein").test_client()
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"Authorization": "Bearer no"}).status_code == 401
    answer = client.get("/metrics", headers={"Authorization": "Bearer letmein"})
    assert answer.status_code == 200
    assert "outbox_oldest_due_seconds" in answer.get_data(as_text=True)


def test_a_database_without_tables_is_told_without_its_words(
    operator: Visitor, app: Flask, engine: sa.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with engine.begin() as db:
        db.execute(sa.text("ALTER TABLE email_outbox RENAME TO moved_away"))
    answer = operator.get("/messages?q=secret-key")
    assert answer.status_code == 503
    assert "Could not read the queue" in text(answer.get_data(as_text=True))
    assert operator.poll("/_f/messages").status_code == 503
    assert operator.poll("/_f/messages").get_data() == b""
    assert "secret-key" not in caplog.text
    assert "email_outbox" not in caplog.text + answer.get_data(as_text=True)
    with engine.begin() as db:
        schema.outbox_meta.drop(db)
    assert app.test_client().get("/readyz").status_code == 503


def test_an_unexpected_error_is_logged_by_type_alone(
    operator: Visitor, app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> str:
        raise RuntimeError(ADDRESS)

    broken.outbox_access = app.view_functions["outbox.overview.show"].outbox_access  # type: ignore[attr-defined]
    app.view_functions["outbox.overview.show"] = broken
    answer = operator.get("/")
    assert answer.status_code == 500
    assert "jane@" not in caplog.text + answer.get_data(as_text=True)
    assert "console failed: RuntimeError" in caplog.text


def test_a_reading_page_cannot_write(app: Flask, engine: sa.Engine) -> None:
    from outbox_admin.web.database import begin_reading, session_of

    if engine.dialect.name != "postgresql":
        return
    with app.app_context():
        db = session_of(app.extensions["sqlalchemy"])
        begin_reading(db, limit=SETTINGS.statement_limit)
        with pytest.raises(sa.exc.InternalError):
            db.execute(sa.insert(schema.outbox_meta).values(name="x", value="y"))
        db.rollback()


def test_s12_settings_hide_their_secrets() -> None:
    settings = WebSettings(secret=b"s3cret" * 8, metrics_token="t0ken")
    assert "s3cret" not in repr(settings)
    assert "t0ken" not in repr(settings)


@pytest.mark.parametrize("secret", [b"short", "short", None])
def test_a_console_does_not_start_without_a_real_secret(secret: Any) -> None:
    with pytest.raises(ValueError, match="32 characters"):
        WebSettings(secret=secret)


def test_a_secret_may_be_text_as_an_environment_variable_gives_it(
    engine: sa.Engine, population: Population
) -> None:
    app = create_app(replace(SETTINGS, secret="a secret of the tests, long enough.."), engine=engine)
    population.user("viewer", "viewer")
    visitor = Visitor(app.test_client())
    assert visitor.sign_in("viewer").status_code == 303
    assert visitor.get("/messages?q=verify").status_code == 200


def test_the_process_clock_is_the_databases(engine: sa.Engine, population: Population) -> None:
    app = create_app(SETTINGS, engine=engine)
    population.user("viewer", "viewer")
    visitor = Visitor(app.test_client())
    assert visitor.sign_in("viewer").status_code == 303
    assert visitor.get("/").status_code == 200
