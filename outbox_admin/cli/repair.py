"""``retry`` and ``cancel``: the console's buttons in a terminal. Conditional, counted, audited."""

from __future__ import annotations

import sys
from uuid import UUID

import click

from outbox_admin.cli.desk import Desk, actor, desk
from outbox_admin.cli.group import group_of, retry_group
from outbox_admin.cli.output import json_option, print_json, print_table
from outbox_admin.cli.queue import find
from outbox_admin.db.store import audit, operator
from outbox_admin.db.store.operator import RetryResult

WORDS = {
    RetryResult.MOVED: "waits to be sent again",
    RetryResult.ALREADY_PENDING: "waits already",
    RetryResult.SENDING: "is being sent",
    RetryResult.ALREADY_SENT: "was sent already",
    RetryResult.PAYLOAD_GONE: "has no payload any more; send it anew from the application",
    RetryResult.EXPIRED: "is past its time and is not sent any more",
    RetryResult.SUPERSEDED: "gives way to a newer message with its supersede key",
    RetryResult.SUPPRESSED: "has a recipient on the suppression list; `outbox-admin suppress remove` comes first",
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
        retry_group(group_of(like, template), include_doubtful=include_doubtful, yes=yes, as_json=as_json)


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
            moved = operator.cancel(at.db, row_id, now=at.now)
            note(at, "cancel", row_id, "done" if moved else "refused")
            done.append((row_id, "cancelled" if moved else "not waiting"))
    tell(done, as_json)
    sys.exit(0 if all(result == "cancelled" for _, result in done) else 1)


def _retry_each(which: tuple[str, ...], as_json: bool) -> None:
    done = []
    with desk() as at:
        for row_id in (row.id for name in which for row in find(at, name)):
            result = operator.retry(at.db, row_id, now=at.now)
            note(at, "retry", row_id, "done" if result is RetryResult.MOVED else result.value)
            done.append((row_id, result))
    if as_json:
        tell([(row_id, result.value) for row_id, result in done], as_json)
    else:
        tell([(row_id, WORDS[result]) for row_id, result in done], as_json)
    sys.exit(0 if all(result is RetryResult.MOVED for _, result in done) else 1)


def note(at: Desk, action: str, row_id: UUID, result: str) -> None:
    """In the console's words, which the message's page shows."""
    audit.add(at.db, at=at.now, actor=actor(), action=action, target=str(row_id), result=result)


def tell(done: list[tuple[UUID, str]], as_json: bool) -> None:
    if as_json:
        print_json({"messages": [{"id": row_id, "result": result} for row_id, result in done]})
    else:
        print_table(("id", "result"), done)
