"""Group retries: what a plan counts beforehand, and what it moves."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads import plans as reads
from outbox_admin.db.reads.dead import DeadFilter
from outbox_admin.db.reads.plans import Preview, Selection
from outbox_admin.db.store import plans, suppressions
from outbox_admin.ids import new_id
from tests.db.rows import NOW, add, later, read

EVERYTHING = Selection(wanted=DeadFilter())


def dead(db: sa.Connection, **values: Any) -> UUID:
    return add(db, **{"state": "failed", "finished_at": later(hours=-1), "attempts": 8} | values)


def preview(db: sa.Connection, selection: Selection = EVERYTHING) -> Preview:
    return reads.preview(db, selection, watermark=NOW, now=NOW)


def run(db: sa.Connection, selection: Selection = EVERYTHING, *, doubtful: bool = False) -> int:
    plan_id = new_id()
    plans.create(db, plan_id=plan_id, owner="ann", selection=selection, expected=1, now=NOW)
    assert plans.confirm(db, plan_id, owner="ann", include_doubtful=doubtful, pace=None, now=NOW)
    return plans.advance(db, now=NOW)


def a_row_of_every_kind(db: sa.Connection) -> dict[str, UUID]:
    rows = {
        "clean": dead(db),
        "doubtful": dead(db, maybe_delivered=True),
        "uncertain": dead(db, state="uncertain", maybe_delivered=True),
        "unmarked": dead(db, state="uncertain"),
        "bare": dead(db, payload=None, key_id=None),
        "expired": dead(db, expires_at=NOW),
        "replaced": dead(db, supersede_key="s"),
        "suppressed": dead(db, recipient_key="joe@example.net"),
        "refused": dead(db, state="rejected", payload=None, key_id=None),
    }
    add(db, supersede_key="s", created_at=NOW)
    suppressions.add(db, recipient_key="joe@example.net", reason="asked", who="cli:ann", now=NOW)
    return rows


def test_a_preview_counts_each_row_once_by_the_reason_that_keeps_it(engine: sa.Engine) -> None:
    with engine.begin() as db:
        a_row_of_every_kind(db)
        dead(db, finished_at=later(seconds=1))  # after the watermark: no part of it
        assert preview(db) == Preview(
            total=9, clean=1, doubtful=3, without_payload=1, expired=1, superseded=1, suppressed=1, changed=1
        )


def test_ids_that_wait_again_or_are_gone_count_as_changed(engine: sa.Engine) -> None:
    with engine.begin() as db:
        selection = Selection(ids=(add(db), add(db, state="sent", payload=None), dead(db), new_id()))
        counted = preview(db, selection)
    assert (counted.total, counted.clean, counted.changed) == (4, 1, 3)


@pytest.mark.parametrize("asked", [False, True], ids=["unasked", "asked"])
def test_e26_a_group_retry_leaves_possible_doubles_out_unless_asked(engine: sa.Engine, asked: bool) -> None:
    with engine.begin() as db:
        rows = a_row_of_every_kind(db)
        before = {name: read(db, row_id) for name, row_id in rows.items()}
        assert run(db, doubtful=asked) == (4 if asked else 1)
        after = {name: read(db, row_id) for name, row_id in rows.items()}
    doubtful = {"doubtful", "uncertain", "unmarked"} if asked else set()
    moved = {name for name, row in after.items() if row.state == State.PENDING}
    assert moved == {"clean"} | doubtful
    assert after["replaced"].state == "superseded"
    same = set(rows) - moved - {"replaced"}
    assert {name: after[name] for name in same} == {name: before[name] for name in same}


def test_e17_a_group_retry_ends_what_a_newer_message_replaces(engine: sa.Engine) -> None:
    with engine.begin() as db:
        replaced = dead(db, supersede_key="s")
        add(db, supersede_key="s", created_at=NOW)
        assert run(db, Selection(ids=(replaced,))) == 0
        row = read(db, replaced)
    assert (row.state, row.payload, row.key_id, row.finished_at, row.retries) == (
        "superseded",
        None,
        None,
        NOW,
        0,
    )


def test_e19_a_group_retry_changes_all_its_rows_before_it_counts_a_minute(engine: sa.Engine) -> None:
    """A late success locks its row and then the minute: else the two would wait for each other crosswise."""
    written: list[str] = []

    def note(db: object, cursor: object, statement: str, *others: object) -> None:
        written.extend(re.findall(r"^(?:UPDATE|INSERT INTO) (email_outbox|outbox_minute)", statement))

    with engine.begin() as db:
        replaced, clean = dead(db, supersede_key="s"), dead(db)
        add(db, supersede_key="s", created_at=NOW)
        sa.event.listen(db, "before_cursor_execute", note)
        assert run(db) == 1
        assert (read(db, replaced).state, read(db, clean).state) == ("superseded", "pending")
    assert written == ["email_outbox", "email_outbox", "outbox_minute"]


@pytest.mark.postgresql
def test_a_group_retry_leaves_what_somebody_else_is_changing(postgres_engine: sa.Engine) -> None:
    with postgres_engine.begin() as db:
        busy, free = dead(db), dead(db)
    with postgres_engine.begin() as other, postgres_engine.begin() as db:
        db.execute(sa.text("SET LOCAL lock_timeout = '5s'"))
        other.execute(sa.text("SELECT 1 FROM email_outbox WHERE id = :id FOR UPDATE"), {"id": busy})
        assert run(db) == 1
        assert (read(db, busy).state, read(db, free).state) == ("failed", "pending")


def test_a_row_that_is_replaced_while_the_plan_runs_is_not_sent(engine: sa.Engine) -> None:
    with engine.begin() as db:
        rows = [dead(db, supersede_key=f"k{number}") for number in range(3)]
        plan_id = new_id()
        plans.create(
            db, plan_id=plan_id, owner="ann", selection=Selection(ids=tuple(rows)), expected=3, now=NOW
        )
        plans.confirm(db, plan_id, owner="ann", include_doubtful=False, pace=None, now=NOW)
        assert plans.advance(db, now=NOW, limit=1) == 1
        add(db, supersede_key="k2", created_at=NOW)
        while reads.find(db, plan_id).finished_at is None:  # type: ignore[union-attr]
            plans.advance(db, now=NOW)
        done = reads.find(db, plan_id)
        assert [read(db, one).state for one in rows] == ["pending", "pending", "superseded"]
    assert done is not None
    assert (done.moved, done.skipped) == (2, 1)
