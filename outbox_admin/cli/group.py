"""Retry of a whole group: by a stored plan like the console's, so that what fails meanwhile is not part of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Event
from uuid import UUID

import click
import sqlalchemy as sa

from outbox_admin.cli.boundary import Refused
from outbox_admin.cli.desk import actor, open_engine, read_settings, reading
from outbox_admin.cli.output import print_json
from outbox_admin.cli.queue import find
from outbox_admin.core.words import plural
from outbox_admin.db.reads import clock, plans
from outbox_admin.db.reads.dead import DeadFilter
from outbox_admin.db.reads.plans import Preview, Selection
from outbox_admin.db.store import audit
from outbox_admin.db.store import plans as store
from outbox_admin.ids import new_id


def group_of(like: str | None, template: str) -> Selection:
    """The console's groups: same state, kind, phase and code as the message ``like``; or a template's dead letters."""
    if like is None:
        return Selection(wanted=DeadFilter(template=template))
    with reading() as at:
        row = find(at, like)[0]
    if row.cause is None:
        raise Refused("This message has no cause to look for; give messages, or --template.")
    kind, phase, code = row.cause.kind, row.cause.phase, row.cause.code
    return Selection(wanted=DeadFilter(state=row.state, kind=kind, phase=phase, code=code, template=template))


def retry_group(selection: Selection, *, include_doubtful: bool, yes: bool, as_json: bool) -> None:
    """Asks with the number, then moves them in short steps."""
    engine, plan_id = open_engine(read_settings()), new_id()
    preview = _plan(engine, plan_id, selection, include_doubtful=include_doubtful)
    number = preview.clean + (preview.doubtful if include_doubtful else 0)
    total = plural(preview.total, "message")
    if not number:
        raise Refused(f"Nothing to retry: of {total} none has payload and time left.")
    if not yes:
        click.confirm(f"Retry {number} of {total}?", abort=True, err=True)
    _confirm(engine, plan_id, number, include_doubtful=include_doubtful)
    with click.progressbar(length=number, label="Retrying", file=sys.stderr, hidden=as_json) as bar:
        for step in _steps(engine, plan_id):
            bar.update(step)
    moved = _moved(engine, plan_id)
    if as_json:
        print_json({"matching": preview.total, "moved": moved, "left": preview.total - moved})
    else:
        click.echo(f"{plural(moved, 'message')} moved; {preview.total - moved} left alone.")


def _plan(engine: sa.Engine, plan_id: UUID, selection: Selection, *, include_doubtful: bool) -> Preview:
    with engine.begin() as db:
        now = clock.now(db)
        preview = plans.preview(db, selection, watermark=now, now=now)
        number = preview.clean + (preview.doubtful if include_doubtful else 0)
        store.create(db, plan_id=plan_id, owner=actor(), selection=selection, expected=number, now=now)
    return preview


def _confirm(engine: sa.Engine, plan_id: UUID, number: int, *, include_doubtful: bool) -> None:
    with engine.begin() as db:
        now = clock.now(db)
        mine = store.confirm(
            db, plan_id, owner=actor(), include_doubtful=include_doubtful, pace=None, now=now
        )
        if not mine:
            raise Refused("The question stood open for more than ten minutes; nothing was moved, ask again.")
        audit.add(db, at=now, actor=actor(), action="retry_group", target=str(plan_id), count=number)


def _steps(engine: sa.Engine, plan_id: UUID) -> Iterator[int]:
    """A short transaction each; a worker may take some of them."""
    pause = Event()
    while True:
        with engine.begin() as db:
            found = plans.find(db, plan_id)
            if found is None or found.finished_at is not None:
                return
            moved = store.advance(db, now=clock.now(db))
        if not moved:
            pause.wait(0.05)
        yield moved


def _moved(engine: sa.Engine, plan_id: UUID) -> int:
    with engine.connect() as db:
        found = plans.find(db, plan_id)
    return 0 if found is None else found.moved
