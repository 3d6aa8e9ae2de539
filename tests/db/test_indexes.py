"""The statements of each cycle walk the partial indexes made for them, however many rows are done or scheduled."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads import counts
from outbox_admin.db.reads.rows import state_in
from outbox_admin.db.store import candidates, claims, deployment, marks, reclaim, superseding, sweeps
from outbox_admin.db.store.rows import take_ids
from tests.db.rows import KID, LEASE, NOW, add, claim

Work = Callable[[sa.Connection], Any]


def plans(db: sa.Connection, work: Work) -> str:
    """What the database would do for the statements that `work` executes."""
    seen: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, text: str, parameters: Any, *rest: Any) -> None:
        seen.append((text, parameters))

    sa.event.listen(db, "before_cursor_execute", note)
    work(db)
    sa.event.remove(db, "before_cursor_execute", note)
    sqlite = db.dialect.name == "sqlite"
    if not sqlite:
        db.exec_driver_sql("SET LOCAL enable_seqscan = off")
    explain = "EXPLAIN QUERY PLAN " if sqlite else "EXPLAIN "
    lines = [str(row) for text, parameters in seen for row in db.exec_driver_sql(explain + text, parameters)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("index", "work"),
    [
        ("due", lambda db: candidates.due(db, now=NOW, limit=20, usable=[KID])),
        (
            "held",
            lambda db: claims.claim_alone(
                db, now=NOW, token=UUID(int=1), worker="w", lease=LEASE, usable=None
            ),
        ),
        ("(claim|sending)", lambda db: marks.renew(db, tokens={UUID(int=1)}, now=NOW, lease=LEASE)),
        ("sending", lambda db: reclaim.reclaim(db, now=NOW)),
        ("expiring", lambda db: sweeps.expire(db, now=NOW)),
        ("keyed", lambda db: superseding.sweep(db, now=NOW)),
        ("supersede", lambda db: candidates.due(db, now=NOW, limit=20, usable=[KID])),
        ("open", lambda db: deployment.settle_sent_since(db, since=NOW, now=NOW)),
        ("open", lambda db: sweeps.give_up(db, now=NOW, after=timedelta(days=3))),
    ],
)
def test_each_statement_finds_its_rows_by_its_own_index(engine: sa.Engine, index: str, work: Work) -> None:
    with engine.begin() as db:
        found = plans(db, work)
    assert re.search(f"ix_email_outbox_{index}", found)


@pytest.mark.parametrize(
    ("index", "states"),
    [
        ("pending", [State.PENDING]),
        ("(sending|claim)", [State.SENDING]),
        *(("dead", [state]) for state in (State.FAILED, State.REJECTED, State.UNCERTAIN)),
        ("dead", [State.FAILED, State.UNCERTAIN]),
        *(("withdrawn", [state]) for state in (State.EXPIRED, State.CANCELLED, State.SUPERSEDED)),
    ],
)
def test_a_count_of_states_walks_no_sent_row(engine: sa.Engine, index: str, states: list[State]) -> None:
    with engine.begin() as db:
        found = plans(db, lambda db: counts.capped(db, state_in(states)))
    assert re.search(f"ix_email_outbox_{index}", found), found


def test_the_claim_needs_no_sorting(engine: sa.Engine) -> None:
    with engine.begin() as db:
        found = plans(db, lambda db: candidates.due(db, now=NOW, limit=20, usable=[KID]))
    assert "TEMP B-TREE" not in found
    assert "Sort" not in found


def test_each_priority_is_a_range_of_its_own_read_only_while_rows_are_wanted(engine: sa.Engine) -> None:
    reads: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda c, cursor, text, *rest: reads.append(text[:6]))
    with engine.begin() as db:
        candidates.due(db, now=NOW, limit=20, usable=None)
        assert reads.count("SELECT") == 3
        add(db, priority=0)
        reads.clear()
        claim(db, limit=1)
        assert reads.count("SELECT") == 1


def test_ids_are_taken_in_the_order_of_ids_where_nothing_else_is_said(engine: sa.Engine) -> None:
    with engine.begin() as db:
        rows = sorted(add(db) for _ in range(5))
        assert take_ids(db, sweeps.PENDING, limit=3) == rows[:3]
