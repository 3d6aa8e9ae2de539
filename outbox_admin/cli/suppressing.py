"""``suppress``: the list of addresses that must not be mailed. Audited, without any address in the audit log."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import BinaryIO

import click

from outbox_admin.cli.boundary import Refused
from outbox_admin.cli.desk import actor, desk, open_engine, read_settings, reading
from outbox_admin.cli.output import json_option, print_json, print_table
from outbox_admin.core import address
from outbox_admin.core.hold import reason_of
from outbox_admin.core.suppression_file import Listing, read_listing
from outbox_admin.core.words import plural
from outbox_admin.db.reads import clock
from outbox_admin.db.reads import suppressions as reads
from outbox_admin.db.store import audit
from outbox_admin.db.store import suppressions as store

#: Addresses of one INSERT, and bad lines that are shown.
STEP, SHOWN = 500, 20
TARGET = "suppression"


@click.group()
def suppress() -> None:
    """Addresses that must not be mailed.

    A new message to one of them is cancelled at once, and its receipt says so. What waits already is cancelled when its
    time comes, without an attempt. What is being handed over is not called back.

    \b
    Example:
      outbox-admin suppress add jane@customer.example --reason "asked by phone"
    """


@suppress.command()
@click.argument("recipient", metavar="ADDRESS")
@click.option("--reason", required=True, help="Why, in a line.")
@json_option
def add(recipient: str, reason: str, as_json: bool) -> None:
    """Put an address on the list. The first reason of one that is on it already stays.

    \b
    Example:
      outbox-admin suppress add jane@customer.example --reason "hard bounce" --json
    """
    key, why = _key(recipient), reason_of(reason)
    with desk() as at:
        added = store.add(at.db, recipient_key=key, reason=why, who=actor(), now=at.now)
        audit.add(at.db, at=at.now, actor=actor(), action="suppress", target=TARGET, count=1 if added else 0)
    with reading() as after:  # to count must not keep anybody waiting
        waiting = reads.waiting(after.db, key)
    if as_json:
        print_json({"added": added, "waiting": waiting})
        return
    click.echo(
        "The address is on the suppression list now." if added else "The address was on the list already."
    )
    if waiting:
        click.echo(f"{plural(waiting, 'waiting message')} to it will be cancelled when the time comes.")


@suppress.command()
@click.argument("recipient", metavar="ADDRESS")
@json_option
def remove(recipient: str, as_json: bool) -> None:
    """Take an address off the list. What was cancelled for it stays cancelled; exits 1 where it was not on the list.

    \b
    Example:
      outbox-admin suppress remove jane@customer.example
    """
    key = _key(recipient)
    with desk() as at:
        if not store.remove(at.db, recipient_key=key):
            raise Refused("The address is not on the suppression list.")
        audit.add(at.db, at=at.now, actor=actor(), action="unsuppress", target=TARGET)
    if as_json:
        print_json({"removed": True})
    else:
        click.echo("The address is off the list; new messages to it are sent.")


@suppress.command("list")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most so many."
)
@click.option("--after", default="", metavar="ADDRESS", help="Go on after this address of an earlier list.")
@json_option
def list_suppressed(limit: int, after: str, as_json: bool) -> None:
    """List the addresses, in the form in which they are compared.

    \b
    Example:
      outbox-admin suppress list --limit 1000 --json
    """
    with reading() as at:
        found = reads.page(at.db, limit=limit + 1, after=after)
        total = reads.number(at.db)
    shown, more = found[:limit], len(found) > limit
    if as_json:
        print_json({"total": total, "addresses": [asdict(one) for one in shown], "more": more})
        return
    if not shown:
        click.echo("No address is suppressed." if not after else "No more addresses.")
        return
    print_table(
        ("address", "since", "who", "reason"),
        [(one.recipient_key, one.created_at, one.who, one.reason) for one in shown],
    )
    if more:
        click.echo(
            f"{plural(total, 'address', 'addresses')} in all; more with: --after {shown[-1].recipient_key}"
        )


@suppress.command("import")
@click.argument("file", type=click.File("rb"))
@click.option("--reason", default="imported", show_default=True, help="For lines that give none.")
@click.option("--skip-bad", is_flag=True, help="Leave bad lines out instead of importing nothing.")
@json_option
def import_file(file: BinaryIO, reason: str, skip_bad: bool, as_json: bool) -> None:
    """Put every address of a file on the list; `-` reads standard input.

    One address a line, in UTF-8, with a reason behind a comma if there is one: `jane@customer.example,hard bounce`.
    Empty lines, lines that begin with `#` and a first line of column names are passed over. If a line is bad, nothing
    is imported and the lines are named.

    \b
    Examples:
      outbox-admin suppress import bounces.csv --reason "bounces of March"
      outbox-admin suppress import - --skip-bad --json < export.csv
    """
    listing = read_listing(file.read(), reason=reason_of(reason))
    if listing.bad and not skip_bad:
        raise Refused(
            f"Nothing was imported; mend these lines, or leave them out with --skip-bad.\n{_named(listing)}"
        )
    added = _add_all(listing, quiet=as_json)
    if as_json:
        known = len(listing.reasons) - added
        print_json({"added": added, "known": known, "repeated": listing.repeated, "bad": listing.bad})
        return
    click.echo(
        f"{plural(added, 'address', 'addresses')} added, {len(listing.reasons) - added} known already."
    )
    if listing.bad:
        click.echo(f"{plural(len(listing.bad), 'bad line')} left out:\n{_named(listing)}")


def _add_all(listing: Listing, *, quiet: bool) -> int:
    """In short transactions, so that nobody waits for a long list; repeated after an interruption, it goes on."""
    engine, keys, added = open_engine(read_settings()), sorted(listing.reasons), 0
    with click.progressbar(length=len(keys), label="Importing", file=sys.stderr, hidden=quiet) as bar:
        for start in range(0, len(keys), STEP):
            step = {key: listing.reasons[key] for key in keys[start : start + STEP]}
            with engine.begin() as db:
                added += store.add_many(db, step, who=actor(), now=clock.now(db))
            bar.update(len(step))
    with engine.begin() as db:
        audit.add(db, at=clock.now(db), actor=actor(), action="suppress", target=TARGET, count=added)
    return added


def _named(listing: Listing) -> str:
    lines = [f"line {bad.number}: {bad.reason}" for bad in listing.bad[:SHOWN]]
    more = len(listing.bad) - len(lines)
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)


def _key(recipient: str) -> str:
    return address.parse(recipient, field="address").key
