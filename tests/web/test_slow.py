"""A view whose statement takes too long says so, and what to do; the database is free again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from outbox_admin.web import WebSettings, create_app
from tests.support.clock import FakeClock
from tests.web.conftest import SETTINGS, Visitor
from tests.web.population import Population


@pytest.mark.postgresql
def test_a_view_that_takes_too_long_says_to_narrow_it(postgres_engine: sa.Engine, clock: FakeClock) -> None:
    Population(postgres_engine, clock.now()).user("viewer", "viewer")
    narrow = replace(SETTINGS, statement_limit=timedelta(milliseconds=300))
    app = create_app(narrow, engine=postgres_engine, clock=clock)
    visitor = Visitor(app.test_client())
    assert visitor.sign_in("viewer").status_code == 303
    with postgres_engine.begin() as other:
        other.execute(sa.text("LOCK TABLE email_outbox IN ACCESS EXCLUSIVE MODE"))
        answer = visitor.get("/messages")
        fragment = visitor.get("/_f/messages", headers={"HX-Request": "true"})
    assert (answer.status_code, fragment.status_code) == (503, 503)
    text = answer.get_data(as_text=True)
    assert "This view took too long" in text
    assert "Narrow it" in text
    assert visitor.get("/messages").status_code == 200
    with postgres_engine.connect() as db:
        assert db.execute(sa.text("SHOW statement_timeout")).scalar_one() == "0"


def test_a_limit_of_nothing_is_refused_since_it_would_be_none() -> None:
    with pytest.raises(ValueError, match="at least a millisecond"):
        WebSettings(secret="s" * 32, statement_limit=timedelta(0))
