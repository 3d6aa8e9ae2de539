"""``erase``: a person leaves the outbox. Run where the key ring is, since what takes the address's place is keyed."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from datetime import timedelta
from threading import Event

import click
import sqlalchemy as sa

from outbox_admin.cli.boundary import Refused
from outbox_admin.cli.desk import actor, open_engine, read_settings
from outbox_admin.cli.keys import configured_ring
from outbox_admin.cli.output import json_option, print_json
from outbox_admin.core import address
from outbox_admin.core.words import plural, span
from outbox_admin.db.reads import clock
from outbox_admin.db.reads import erasing as reads
from outbox_admin.db.store import audit, suppressions
from outbox_admin.db.store import erasing as store
from outbox_admin.db.store.erasing import Erased

#: Seconds between two looks at what is being sent.
LOOK = 0.5
STAYS = (
    "What stays: the keys that the application gave (idempotency, supersede, correlation) and the audit log."
)


@click.command()
@click.argument("recipient", metavar="ADDRESS")
@click.option(
    "--wait",
    "minutes",
    type=click.FloatRange(0, 1440),
    default=10,
    show_default=True,
    help="Minutes to wait for what is being sent.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def erase(recipient: str, minutes: float, yes: bool, as_json: bool) -> None:
    """Remove a person's address and messages. There is no way back.

    What waits for the address is cancelled, and so are the other recipients' rows of the same messages, since each
    holds the whole message. What is being sent is waited for. Then a keyed hash takes the address's place, and provider
    id, Message-ID and hints are cleared. The application's own keys and the audit log stay; so does an entry of the
    suppression list. Run it again whenever you like: it finds what has come since.

    Exits 1 where messages were still being sent when the wait was over.

    \b
    Example:
      outbox-admin erase jane@customer.example --yes --json
    """
    key = address.parse(recipient, field="address").key
    settings = read_settings()
    mark = store.MARK + configured_ring(settings).fingerprint(f"{store.MARK}{key}")
    engine = open_engine(settings)
    if not yes:
        _ask(engine, key)
    done = _erase(engine, key, mark, patience=timedelta(minutes=minutes), quiet=as_json)
    _note(engine, mark, done)
    _tell(done, mark, suppressed=_is_suppressed(engine, key), as_json=as_json)
    if done.left:
        waited = span(minutes * 60)
        raise Refused(f"The address is still in {plural(done.left, 'row')} after {waited}; run it again.")


def _ask(engine: sa.Engine, key: str) -> None:
    with engine.connect().execution_options(sqlite_begin="DEFERRED") as db:
        found = reads.traces(db, key)
    cancelled = plural(found.waiting + found.dead, "message")
    others = plural(found.siblings, "row") + " to other recipients of the same messages"
    click.confirm(
        f"The address is in {plural(found.rows, 'row')}; {cancelled} to it and {others} will be cancelled. Go on?",
        abort=True,
        err=True,
    )


def _erase(engine: sa.Engine, key: str, mark: str, *, patience: timedelta, quiet: bool) -> Erased:
    """Step after step until nothing names the person, or the patience is over."""
    total, pause, until = Erased(), Event(), None
    with click.progressbar(length=0, label="Erasing", show_pos=True, file=sys.stderr, hidden=quiet) as bar:
        while True:
            with engine.begin() as db:
                now = clock.now(db)
                step = store.erase(db, recipient_key=key, mark=mark, now=now)
            until = until or now + patience
            total = _sum(total, step)
            bar.update(step.withdrawn + step.siblings + step.replaced)
            if not step.left or (not step.moved and now >= until):
                return total
            if not step.moved:
                pause.wait(LOOK)


def _sum(total: Erased, step: Erased) -> Erased:
    """Changes add up; what is left is what the last step saw."""
    return replace(
        step,
        withdrawn=total.withdrawn + step.withdrawn,
        siblings=total.siblings + step.siblings,
        replaced=total.replaced + step.replaced,
    )


def _note(engine: sa.Engine, mark: str, done: Erased) -> None:
    with engine.begin() as db:
        result = "waiting" if done.left else "done"
        audit.add(
            db,
            at=clock.now(db),
            actor=actor(),
            action="erase",
            target=mark,
            count=done.replaced,
            result=result,
        )


def _is_suppressed(engine: sa.Engine, key: str) -> bool:
    with engine.connect().execution_options(sqlite_begin="DEFERRED") as db:
        return bool(suppressions.known(db, [key]))


def _tell(done: Erased, mark: str, *, suppressed: bool, as_json: bool) -> None:
    if as_json:
        print_json(asdict(done) | {"mark": mark, "suppressed": suppressed})
        return
    click.echo(
        f"{plural(done.replaced, 'row')} erased, {plural(done.withdrawn, 'message')} and "
        f"{plural(done.siblings, 'row')} to others cancelled; the address's place takes {mark}."
    )
    click.echo(STAYS)
    if suppressed:
        click.echo("The address stays on the suppression list; `outbox-admin suppress remove` takes it off.")
