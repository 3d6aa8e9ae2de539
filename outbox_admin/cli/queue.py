"""``list`` and ``show``: what the console's pages say, in a terminal. Addresses are masked unless asked for."""

from __future__ import annotations

from uuid import UUID

import click

from outbox_admin.cli.boundary import Refused
from outbox_admin.cli.desk import Desk, reading
from outbox_admin.cli.output import json_option, print_json
from outbox_admin.cli.wording import facts, print_message, print_rows
from outbox_admin.core import address
from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads import message, messages
from outbox_admin.db.reads.rows import MessageDetail
from outbox_admin.db.reads.walks import WINDOW, Position

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
    key = address.parse(recipient, field="recipient").key if recipient else ""
    among = tuple(map(State, states))
    wanted = messages.Filter(states=among, template=template, text=text, recipient_key=key, overdue=overdue)
    _show_page(wanted, messages.Ask(size=limit, at=Position(before) if before else None), reveal, as_json)


def _show_page(wanted: messages.Filter, ask: messages.Ask, reveal: bool, as_json: bool) -> None:
    with reading() as at:
        narrowed = messages.narrowed(at.db, wanted)
        page = messages.page(at.db, narrowed, ask, now=at.now)
    if as_json:
        end = str(page.searched_to.id) if page.searched_to else None
        shown = [facts(row, reveal) for row in page.rows]
        print_json({"messages": shown, "more": page.later, "searched_to": end})
        return
    print_rows(page.rows, reveal)
    if page.later:
        click.echo(f"There are more: --before {page.rows[-1].id}")
    elif page.searched_to:
        click.echo(f"{WINDOW:,} messages were searched; what follows them: --before {page.searched_to.id}")


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
        print_message(row, tries, reveal)


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
        raise Refused(f"There is no message {which}; it was purged, or never existed.")
    return rows
