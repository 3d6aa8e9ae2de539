"""``retry`` and ``cancel``: the console's buttons in a terminal. Conditional, counted, audited."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from uuid import UUID

import click
import sqlalchemy as sa

from outbox_admin.cli.boundary import Refused
from outbox_admin.cli.desk import actor, desk, open_engine, read_settings, reading
from outbox_admin.cli.output import json_option, print_json, print_table
from outbox_admin.cli.queue import find
from outbox_admin.core.words import plural
from outbox_admin.db.reads import clock, plans
from outbox_admin.db.reads.dead import DeadFilter
from outbox_admin.db.reads.plans import Selection
from outbox_admin.db.store import audit, operator
from outbox_admin.db.store import plans as plan_store
from outbox_admin.db.store.operator import RetryResult
from outbox_admin.ids import new_id

WORDS = {
    RetryResult.MOVED: "waits to be sent again",
    RetryResult.ALREADY_PENDING: "waits already",
    RetryResult.SENDING: "is being sent",
    RetryResult.ALREADY_SENT: "was sent already",
    RetryResult.PAYLOAD_GONE: "has no payload any more; send it anew from the application",
    RetryResult.EXPIRED: "is past its time and has expired",
    RetryResult.NOT_RETRYABLE: "ended for good and is not sent again",
    RetryResult.UNKNOWN: "does not exist",
}


@click.command()
@click.argument("which", nargs=-1, metavar="[ID|KEY]...")
@click.option("--like", metavar="ID|KEY", help="All dead letters with the cause of this one.")
@click.option("--template", default="", help="Of those, or of all dead letters, this template key.")
@click.option("--include-doubtful", is_flag=True, help="Also those of which a copy may have been delivered.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def retry(
    which: tuple[str, ...],
    like: str | None,
    template: str,
    include_doubtful: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Send dead letters again, with all their attempts anew: some, or a group by cause and template.

    Exits 1 where something could not be retried.

    \b
    Examples:
      outbox-admin retry 0190a1f2-7c3e-7d1a-9b42-0f6f5f8c2d11
      outbox-admin retry --like invoice:2026-031 --template invoice.notice
    """
    if bool(which) == bool(like or template):
        raise click.UsageError("Give messages, or a group by --like or --template.")
    if which:
        _retry_each(which, as_json)
    else:
        _retry_group(_group(like, template), include_doubtful=include_doubtful, yes=yes, as_json=as_json)


@click.command()
@click.argument("which", nargs=-1, required=True, metavar="ID|KEY...")
@json_option
def cancel(which: tuple[str, ...], as_json: bool) -> None:
    """Withdraw what waits, or dismiss what failed; its payload is cleared.

    Exits 1 where there was nothing to withdraw any more.

    \b
    Example:
      outbox-admin cancel invoice:2026-031
    """
    done = []
    with desk() as at:
        for row_id in (row.id for name in which for row in find(at, name)):
            result = "cancelled" if operator.cancel(at.db, row_id, now=at.now) else "not waiting"
            audit.add(at.db, at=at.now, actor=actor(), action="cancel", target=str(row_id), result=result)
            done.append((row_id, result))
    _tell(done, as_json)
    sys.exit(0 if all(result == "cancelled" for _, result in done) else 1)


def _retry_each(which: tuple[str, ...], as_json: bool) -> None:
    done = []
    with desk() as at:
        for row_id in (row.id for name in which for row in find(at, name)):
            result = operator.retry(at.db, row_id, now=at.now)
            audit.add(
                at.db, at=at.now, actor=actor(), action="retry", target=str(row_id), result=result.value
            )
            done.append((row_id, result))
    if as_json:
        _tell([(row_id, result.value) for row_id, result in done], as_json)
    else:
        _tell([(row_id, WORDS[result]) for row_id, result in done], as_json)
    sys.exit(0 if all(result is RetryResult.MOVED for _, result in done) else 1)


def _tell(done: list[tuple[UUID, str]], as_json: bool) -> None:
    if as_json:
        print_json({"messages": [{"id": row_id, "result": result} for row_id, result in done]})
    else:
        print_table(("id", "result"), done)


def _group(like: str | None, template: str) -> Selection:
    """The console's groups: same state, kind, phase and code."""
    if like is None:
        return Selection(wanted=DeadFilter(template=template))
    with reading() as at:
        row = find(at, like)[0]
    if row.cause is None:
        raise Refused("This message has no cause to look for; give messages, or --template.")
    kind, phase, code = row.cause.kind, row.cause.phase, row.cause.code
    wanted = DeadFilter(state=row.state, kind=kind, phase=phase, code=code, template=template)
    return Selection(wanted=wanted)


def _retry_group(selection: Selection, *, include_doubtful: bool, yes: bool, as_json: bool) -> None:
    """By a stored plan like the console's, so that what fails meanwhile is not part of it."""
    engine, plan_id = open_engine(read_settings()), new_id()
    with engine.begin() as db:
        now = clock.now(db)
        preview = plans.preview(db, selection, watermark=now, now=now)
        number = preview.clean + (preview.doubtful if include_doubtful else 0)
        plan_store.create(db, plan_id=plan_id, owner=actor(), selection=selection, expected=number, now=now)
    if not number:
        raise Refused(
            f"Nothing to retry: of {plural(preview.total, 'message')} none has payload and time left."
        )
    if not yes:
        click.confirm(f"Retry {number} of {plural(preview.total, 'message')}?", abort=True, err=True)
    with engine.begin() as db:
        now = clock.now(db)
        plan_store.confirm(db, plan_id, owner=actor(), include_doubtful=include_doubtful, pace=None, now=now)
        audit.add(db, at=now, actor=actor(), action="retry_group", target=str(plan_id), count=number)
    with click.progressbar(length=number, label="Retrying", file=sys.stderr, hidden=as_json) as bar:
        for moved in _steps(engine, plan_id):
            bar.update(moved)
    moved = _moved(engine, plan_id)
    engine.dispose()
    if as_json:
        print_json({"matching": preview.total, "moved": moved, "left": preview.total - moved})
    else:
        click.echo(f"{plural(moved, 'message')} moved; {preview.total - moved} left alone.")


def _steps(engine: sa.Engine, plan_id: UUID) -> Iterator[int]:
    """A short transaction each; a worker may take some of them."""
    while True:
        with engine.begin() as db:
            found = plans.find(db, plan_id)
            if found is None or found.finished_at is not None:
                return
            moved = plan_store.advance(db, now=clock.now(db))
        yield moved


def _moved(engine: sa.Engine, plan_id: UUID) -> int:
    with engine.connect() as db:
        found = plans.find(db, plan_id)
    return 0 if found is None else found.moved
