"""Messages as JSON and as text. Addresses are masked unless asked for; causes are the restricted ones."""

from __future__ import annotations

from dataclasses import asdict

import click

from outbox_admin.cli.output import print_facts, print_table, stamp
from outbox_admin.core import catalogue
from outbox_admin.core.cause import Cause
from outbox_admin.core.lifecycle import State
from outbox_admin.core.words import plural
from outbox_admin.db.reads.message import Try
from outbox_admin.db.reads.rows import MessageDetail, MessageRow


def facts(row: MessageRow, reveal: bool) -> dict[str, object]:
    """A message as JSON. The cause is the restricted one: no text of any relay."""
    names = [name for shape in type(row).__mro__ for name in getattr(shape, "__slots__", ())]
    found = {name: getattr(row, name) for name in sorted(names) if name != "recipient_key"}
    cause = None if row.cause is None else {"words": catalogue.words(row.cause), **asdict(row.cause)}
    return found | {"recipient": _address(row, reveal), "cause": cause}


def print_rows(rows: tuple[MessageRow, ...], reveal: bool) -> None:
    if not rows:
        click.echo("No messages.")
        return
    print_table(
        ("id", "state", "recipient", "template", "attempts", "due or finished", "cause"),
        [
            (
                row.id,
                row.state + (" (possible double)" if row.possible_double else ""),
                _address(row, reveal),
                row.template_key,
                f"{row.attempts}/{row.max_attempts}",
                stamp(row.finished_at or row.due_at),
                _words(row.cause),
            )
            for row in rows
        ],
    )


def print_message(row: MessageDetail, tries: list[Try], reveal: bool) -> None:
    """All about one message that is not sealed."""
    print_facts(_row_facts(row, reveal))
    if tries:
        click.echo()
        print_table(
            ("ended", "outcome", "counted", "worker", "next due", "cause"),
            [
                (
                    t.ended_at,
                    t.outcome + (" (redirected)" if t.redirected_to else ""),
                    "yes" if t.counted else "no",
                    t.worker,
                    t.next_due_at,
                    _words(t.cause),
                )
                for t in tries
            ],
        )
    click.echo()


def _row_facts(row: MessageDetail, reveal: bool) -> dict[str, object]:
    return {
        "id": row.id,
        "state": row.state + (f" (held: {row.held})" if row.held else ""),
        "key": f"{row.idempotency_key} part {row.part}",
        "recipient": _address(row, reveal),
        "template": row.template_key,
        "attempts": _attempts(row),
        "created": row.created_at,
        "due": row.due_at if row.state is State.PENDING else None,
        "finished": row.finished_at,
        "cause": _words(row.cause),
        "cure": catalogue.cure(row.cause) if row.cause else None,
        "in doubt": _doubt(row),
        "payload": "kept, sealed" if row.has_payload else "cleared",
        "message id": row.message_id,
        "provider id": row.provider_id,
        "route": row.route,
    }


def _doubt(row: MessageDetail) -> str | None:
    if row.state is State.UNCERTAIN:
        return f"look for its message id in the relay's log, then `outbox-admin settle {row.id}`"
    return "a copy may have been delivered" if row.maybe_delivered else None


def _attempts(row: MessageDetail) -> str:
    by_hand = f", retried {plural(row.retries, 'time')} by hand" if row.retries else ""
    return f"{row.attempts} of {row.max_attempts}, {plural(row.tries, 'try', 'tries')}{by_hand}"


def _address(row: MessageRow, reveal: bool) -> str:
    if reveal or "@" not in row.recipient:  # an erased one has no more to hide
        return row.recipient
    local, _, domain = row.recipient.rpartition("@")
    return f"{local[:1]}…@{domain}"


def _words(cause: Cause | None) -> str | None:
    return None if cause is None else catalogue.words(cause)
