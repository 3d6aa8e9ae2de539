"""``unreadable``: what becomes of messages that no worker could open, when too many of them stopped the rejecting."""

from __future__ import annotations

import sys

import click
import sqlalchemy as sa

from outbox_admin.cli.desk import actor, open_engine, read_settings
from outbox_admin.cli.output import json_option, print_json
from outbox_admin.core.words import plural
from outbox_admin.db.reads import clock
from outbox_admin.db.store import audit
from outbox_admin.db.store import unreadable as store

_WORDS = {"try_again": "given back to the queue", "reject": "rejected, their payloads cleared"}


@click.command()
@click.option("--try-again", is_flag=True, help="The cause is cured: give them back to the queue.")
@click.option("--reject", is_flag=True, help="They are lost: reject them and clear their payloads.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def unreadable(try_again: bool, reject: bool, yes: bool, as_json: bool) -> None:
    """Decide about messages that no worker can open, and that were set aside because there were too many of them.

    Find out first what altered the rows or the key ring: a migration of the tables, a wrong ring under the same ids.
    Tried again without a cure, the first five are rejected before the others are set aside anew. Without an option,
    tells how many there are.

    \b
    Examples:
      outbox-admin unreadable
      outbox-admin unreadable --try-again
    """
    if try_again and reject:
        raise click.UsageError("Give one of --try-again and --reject.")
    engine = open_engine(read_settings())
    with engine.connect() as db:
        waiting = store.number(db)
    if not (try_again or reject):
        _tell({"waiting": waiting}, f"{plural(waiting, 'message')} set aside, waiting for you.", as_json)
        return
    action = "try_again" if try_again else "reject"
    if waiting and reject and not yes:
        click.confirm(f"Reject {plural(waiting, 'message')}? There is no way back.", abort=True, err=True)
    moved = _apply(engine, action, waiting, quiet=as_json)
    _tell({action: moved}, f"{plural(moved, 'message')} {_WORDS[action]}.", as_json)


def _apply(engine: sa.Engine, action: str, waiting: int, *, quiet: bool) -> int:
    """In steps, each a transaction of its own, so that workers are not kept waiting."""
    step, moved = {"try_again": store.try_again, "reject": store.reject}[action], 0
    with click.progressbar(length=waiting, label="Deciding", file=sys.stderr, hidden=quiet) as bar:
        while moved < waiting:
            with engine.begin() as db:
                now = clock.now(db)
                number = step(db, now=now)
                if number:
                    audit.add(db, at=now, actor=actor(), action="unreadable", count=number, result=action)
            if not number:
                break
            bar.update(number)
            moved += number
    return moved


def _tell(data: dict[str, int], words: str, as_json: bool) -> None:
    if as_json:
        print_json(data)
    else:
        click.echo(words)
