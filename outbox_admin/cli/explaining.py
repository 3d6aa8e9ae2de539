"""``explain``: opens what relays really said. Only where the key ring is, and never without an audit entry."""

from __future__ import annotations

import click

from outbox_admin.cli.desk import Desk, actor, desk
from outbox_admin.cli.keys import configured_ring
from outbox_admin.cli.output import json_option, print_json, print_table
from outbox_admin.cli.queue import find
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.db.reads.rows import MessageDetail
from outbox_admin.db.store import audit
from outbox_admin.db.store.details import SealedDetail, sealed_details
from outbox_admin.errors import PayloadUnreadable


@click.command()
@click.argument("which", metavar="ID|KEY")
@json_option
def explain(which: str, as_json: bool) -> None:
    """Print what the relay answered to each try of a message.

    The text is kept sealed and may name the recipient; reading it leaves an entry in the audit log.

    \b
    Example:
      outbox-admin explain verify:42
    """
    with desk() as at:
        ring = configured_ring(at.settings)
        told = [(row, _open(at, ring, row)) for row in find(at, which)]
    if as_json:
        print_json({"messages": [{"id": row.id, "tries": tries} for row, tries in told]})
        return
    for row, tries in told:
        click.echo(f"{row.id}: " + ("every try:" if tries else "no try failed."))
        if tries:
            print_table(("try", "at", "outcome", "answer"), [tuple(one.values()) for one in tries])


def _open(at: Desk, ring: KeyRing, row: MessageDetail) -> list[dict[str, object]]:
    audit.add(at.db, at=at.now, actor=actor(), action="explained", target=str(row.id))
    return [
        {"try": one.number, "at": one.at, "outcome": one.outcome, "answer": _text(ring, row, one)}
        for one in sealed_details(at.db, row.id)
    ]


def _text(ring: KeyRing, row: MessageDetail, one: SealedDetail) -> str:
    if one.sealed is None:
        return "(no text was kept)"
    try:
        return ring.open_detail(one.sealed, row_id=row.id, attempt=one.number)
    except PayloadUnreadable as fault:
        return f"(this key ring does not open it: {fault.reason})"
