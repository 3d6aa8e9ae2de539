"""``unreadable``: an operator decides about what was set aside, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin.db.schema import audit_entry
from outbox_admin.db.store import unreadable as store
from tests.cli.conftest import Shell
from tests.db.rows import NOW, add, counted, later, read

COUNT = 3


@pytest.fixture
def rows(engine: sa.Engine) -> list[Any]:
    with engine.begin() as db:
        others = [add(db, held="format"), add(db), add(db, state="failed", finished_at=NOW)]
        return [*(add(db, held="unreadable", first_due_at=later(days=-9)) for _ in range(COUNT)), *others]


def states(engine: sa.Engine, rows: list[Any]) -> list[tuple[str, str | None]]:
    with engine.connect() as db:
        return [(row.state, row.held) for row in (read(db, one) for one in rows)]


def audited(engine: sa.Engine) -> list[tuple[str, str, int]]:
    entry = audit_entry.c
    with engine.connect() as db:
        found = db.execute(sa.select(entry["action", "result", "count"]).order_by(entry.id))
        return [tuple(one) for one in found]  # type: ignore[misc]


def test_without_a_decision_nothing_changes(shell: Shell, engine: sa.Engine, rows: list[Any]) -> None:
    before = states(engine, rows)
    assert shell.json("unreadable") == {"waiting": COUNT}
    assert "3 messages set aside" in shell("unreadable").stdout
    shell("unreadable", "--try-again", "--reject", code=2)
    shell("unreadable", "--reject", given="n\n", code=1)
    assert (states(engine, rows), audited(engine)) == (before, [])


def test_e15_an_operators_confirmation_gives_them_back(
    shell: Shell, engine: sa.Engine, rows: list[Any]
) -> None:
    before = states(engine, rows)
    assert shell.json("unreadable", "--try-again") == {"try_again": COUNT}
    assert states(engine, rows) == [("pending", None)] * COUNT + before[COUNT:]
    with engine.connect() as db:
        assert read(db, rows[0]).first_due_at > later(days=-9)
    assert audited(engine) == [("unreadable", "try_again", COUNT)]
    assert shell.json("unreadable", "--try-again") == {"try_again": 0}
    assert len(audited(engine)) == 1


def test_what_is_lost_can_be_rejected(shell: Shell, engine: sa.Engine, rows: list[Any]) -> None:
    before = states(engine, rows)
    assert "3 messages rejected" in shell("unreadable", "--reject", "--yes").stdout
    assert states(engine, rows) == [("rejected", None)] * COUNT + before[COUNT:]
    with engine.connect() as db:
        row = read(db, rows[0])
        assert (row.payload, row.key_id, row.cause_kind) == (None, None, "payload_unreadable")
        assert counted(db) == {"payload_unreadable": COUNT}
    assert audited(engine) == [("unreadable", "reject", COUNT)]


def test_e15_a_step_is_bounded(engine: sa.Engine, rows: list[Any]) -> None:
    with engine.begin() as db:
        assert [store.try_again(db, now=NOW, limit=2) for _ in range(3)] == [2, 1, 0]
