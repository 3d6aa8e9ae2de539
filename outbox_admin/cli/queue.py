"""``list`` and ``show``: what the console's pages say, in a terminal. Addresses are masked unless asked for."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

import click

from outbox_admin.cli.boundary import Refused
from outbox_admin.cli.desk import Desk, reading
from outbox_admin.cli.output import json_option, print_facts, print_json, print_table, stamp
from outbox_admin.core import address, catalogue
from outbox_admin.core.cause import Cause
from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads import message, messages
from outbox_admin.db.reads.message import Try
from outbox_admin.db.reads.rows import MessageDetail, MessageRow

_STATES = click.Choice([state.value for state in State])
reveal_option = click.option("--reveal", is_flag=True, help="Show whole addresses.")


@click.command("list")
@click.option(
    "--state", "states", multiple=True, type=_STATES, help="Only these; may be given several times."
)
@click.option("--template", default="", help="Only messages of this template key.")
@click.option("--text", default="", help="Beginning of an idempotency or template key.")
@click.option("--recipient", help="Only messages to this address.")
@click.option("--overdue", is_flag=True, help="Only what is due and not yet taken.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many.")
@click.option("--before", type=click.UUID, metavar="ID", help="Go on after this message of an earlier list.")
@reveal_option
@json_option
def list_messages(
    states: tuple[str, ...],
    template: str,
    text: str,
    recipient: str | None,
    overdue: bool,
    limit: int,
    before: UUID | None,
    reveal: bool,
    as_json: bool,
) -> None:
    """List messages, the newest first.

    \b
    Examples:
      outbox-admin list --state failed --state rejected
      outbox-admin list --template password.reset --limit 10 --json
    """
    wanted = messages.Filter(
        states=tuple(map(State, states)),
        template=template,
        text=text,
        recipient_key=address.parse(recipient, field="recipient").key if recipient else "",
        overdue=overdue,
    )
    at_row = messages.Position(before) if before else None
    with reading() as at:
        narrowed = messages.narrowed(at.db, wanted)
        page = messages.page(at.db, narrowed, messages.Ask(size=limit, at=at_row), now=at.now)
    if as_json:
        print_json({"messages": [facts(row, reveal) for row in page.rows], "more": page.later})
        return
    _print_rows(page.rows, reveal)
    if page.later:
        click.echo(f"There are more: --before {page.rows[-1].id}")


@click.command()
@click.argument("which", metavar="ID|KEY")
@reveal_option
@json_option
def show(which: str, reveal: bool, as_json: bool) -> None:
    """Show one message and its tries; a key shows each recipient's row.

    \b
    Examples:
      outbox-admin show 0190a1f2-7c3e-7d1a-9b42-0f6f5f8c2d11
      outbox-admin show verify:42 --json
    """
    with reading() as at:
        found = [(row, message.tries(at.db, row.id)) for row in find(at, which)]
    if as_json:
        print_json({"messages": [facts(row, reveal) | {"tries_made": tries} for row, tries in found]})
        return
    for row, tries in found:
        _print_message(row, tries, reveal)


def find(at: Desk, which: str) -> list[MessageDetail]:
    """By id, or all rows of a key; Refused where there is none."""
    try:
        ids = [UUID(which)]
    except ValueError:
        by_key = messages.Filter(text=which, exact=True)
        page = messages.page(at.db, by_key, messages.Ask(descending=False), now=at.now)
        ids = [row.id for row in page.rows]
    rows = [row for row_id in ids if (row := message.find(at.db, row_id)) is not None]
    if not rows:
        raise Refused("There is no such message; it was purged, or never existed.")
    return rows


def facts(row: MessageRow, reveal: bool) -> dict[str, object]:
    """A message as JSON. The cause is the restricted one: no text of any relay."""
    names = [name for shape in type(row).__mro__ for name in getattr(shape, "__slots__", ())]
    found = {name: getattr(row, name) for name in sorted(names) if name != "recipient_key"}
    cause = None if row.cause is None else {"words": catalogue.words(row.cause), **asdict(row.cause)}
    return found | {"recipient": _address(row, reveal), "cause": cause}


def _print_rows(rows: tuple[MessageRow, ...], reveal: bool) -> None:
    if not rows:
        click.echo("No messages.")
        return
    print_table(
        ("id", "state", "recipient", "template", "attempts", "due or finished", "cause"),
        [
            (
                row.id,
                row.state,
                _address(row, reveal),
                row.template_key,
                f"{row.attempts}/{row.max_attempts}",
                stamp(row.finished_at or row.due_at),
                _words(row.cause),
            )
            for row in rows
        ],
    )


def _print_message(row: MessageDetail, tries: list[Try], reveal: bool) -> None:
    print_facts(
        {
            "id": row.id,
            "state": row.state + (f" (held: {row.held})" if row.held else ""),
            "key": f"{row.idempotency_key} part {row.part}",
            "recipient": _address(row, reveal),
            "template": row.template_key,
            "attempts": f"{row.attempts} of {row.max_attempts}, {row.tries} tries, {row.retries} retries by hand",
            "created": row.created_at,
            "due": row.due_at if row.state is State.PENDING else None,
            "finished": row.finished_at,
            "cause": _words(row.cause),
            "cure": catalogue.cure(row.cause) if row.cause else None,
            "in doubt": "a copy may have been delivered" if row.maybe_delivered else None,
            "payload": "kept, sealed" if row.has_payload else "cleared",
            "message id": row.message_id,
            "provider id": row.provider_id,
            "route": row.route,
        }
    )
    if tries:
        click.echo()
        print_table(
            ("ended", "outcome", "counted", "worker", "next due", "cause"),
            [
                (
                    t.ended_at,
                    t.outcome,
                    "yes" if t.counted else "no",
                    t.worker,
                    t.next_due_at,
                    _words(t.cause),
                )
                for t in tries
            ],
        )
    click.echo()


def _address(row: MessageRow, reveal: bool) -> str:
    if reveal:
        return row.recipient
    local, _, domain = row.recipient.rpartition("@")
    return f"{local[:1]}…@{domain}"


def _words(cause: Cause | None) -> str | None:
    return None if cause is None else catalogue.words(cause)
