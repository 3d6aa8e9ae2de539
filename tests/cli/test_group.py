"""A group's question that stood open too long moves nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from outbox_admin.cli import group
from outbox_admin.cli.boundary import Refused
from outbox_admin.db.reads.dead import DeadFilter
from outbox_admin.db.reads.plans import Selection
from outbox_admin.db.schema import retry_plan
from outbox_admin.ids import new_id


def test_a_question_that_stood_open_too_long_is_asked_again(engine: sa.Engine) -> None:
    plan_id = new_id()
    group._plan(engine, plan_id, Selection(wanted=DeadFilter()), include_doubtful=False)
    with engine.begin() as db:
        made = db.execute(sa.select(retry_plan.c.created_at)).scalar_one()
        db.execute(sa.update(retry_plan).values(expires_at=made - timedelta(seconds=1)))
    with pytest.raises(Refused, match="ask again"):
        group._confirm(engine, plan_id, 1, include_doubtful=False)
