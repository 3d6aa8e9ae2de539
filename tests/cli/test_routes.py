"""``routes`` and ``probe`` in a terminal."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.db.schema import audit_entry
from outbox_admin.db.store import routes
from tests.cli.conftest import Shell

LOGIN = Cause(Phase.AUTH, Kind.AUTH_REJECTED, 535, "5.7.8")


def pause(engine: sa.Engine) -> None:
    with engine.begin() as db:
        routes.open_unless_alone(
            db, "primary", worker="mail-1:7:a", cause=LOGIN, now=datetime.now(UTC), roll=0.0
        )


def audit(engine: sa.Engine) -> list[tuple[str, str, str]]:
    read = sa.select(audit_entry.c.action, audit_entry.c.target, audit_entry.c.result)
    with engine.connect() as db:
        return [tuple(entry) for entry in db.execute(read.order_by(audit_entry.c.id))]


def test_a_paused_route_is_listed_with_its_reason_and_tried_at_once(shell: Shell, engine: sa.Engine) -> None:
    assert "No worker has used a route" in shell("routes").stdout
    began = datetime.now(UTC)
    pause(engine)
    listed = shell("routes").stdout
    assert "primary  paused" in listed
    assert "Login refused by the relay" in listed
    [route] = shell.json("routes")["routes"]
    assert (route["gate"], route["cause"]["code"]) == ("open", 535)
    assert datetime.fromisoformat(route["next_probe_at"]) > began
    assert shell.json("probe")["probe"] == "due"
    [route] = shell.json("routes")["routes"]
    assert datetime.fromisoformat(route["next_probe_at"]) <= datetime.now(UTC)
    assert audit(engine) == [("probe", "primary", "done")]


def test_a_route_that_is_not_paused_is_not_probed_and_the_refusal_is_audited(
    shell: Shell, engine: sa.Engine
) -> None:
    done = shell("probe", "secondary", code=1)
    assert "not paused" in done.stderr
    assert shell.json("routes")["routes"] == []
    assert audit(engine) == [("probe", "secondary", "refused")]
