"""``enqueue``: puts one message into the outbox by hand, or a finished mail file."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from typing import Any, BinaryIO

import click

from outbox_admin import assemble
from outbox_admin.cli.desk import desk
from outbox_admin.cli.moments import MOMENT, Given, ahead
from outbox_admin.cli.output import json_option, print_json, print_table
from outbox_admin.config import Role
from outbox_admin.core.lifecycle import OnUnknown
from outbox_admin.core.message import AnyMessage, Attachment, Message
from outbox_admin.producer import Receipt
from outbox_admin.producer.options import OptionValues


def words(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """A click callback: text as it is given; ``@FILE`` and ``-`` read it from a file or standard input."""
    if value is None or not (value == "-" or value.startswith("@")):
        return value
    source = value.removeprefix("@")
    try:
        with click.open_file(source, encoding="utf-8") as file:
            return str(file.read())
    except UnicodeDecodeError:
        raise click.BadParameter(f"{source} is not UTF-8 text.") from None
    except OSError as fault:
        raise click.BadParameter(f"{source}: {fault.strerror}.") from None


@click.command()
@click.option("--to", multiple=True, metavar="ADDRESS", help="Recipient; may be given several times.")
@click.option(
    "--key", required=True, help="Idempotency key: the business event, as invoice:2026-031:reminder-1."
)
@click.option("--subject", help="Subject line.")
@click.option("--text", callback=words, help="Plain text; @FILE reads a file, - standard input.")
@click.option("--html", callback=words, help="HTML; @FILE reads a file, - standard input.")
@click.option(
    "--attach", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file."
)
@click.option(
    "--eml", type=click.File("rb"), help="A finished message (RFC 5322) instead of subject, text and HTML."
)
@click.option("--template-key", default="", help="Kind of mail, as invoice.notice; for lists and figures.")
@click.option(
    "--priority", type=click.IntRange(0, 2), default=1, show_default=True, help="0 urgent, 1 normal, 2 bulk."
)
@click.option("--not-before", type=MOMENT, help="Send it then: 2026-12-01T08:00Z, or a span from now as 2h.")
@click.option("--expires", type=MOMENT, help="Never send it from then on; a time or a span from now.")
@click.option("--supersede-key", help="Takes the place of what waits with the same supersede key.")
@click.option(
    "--on-unknown",
    type=click.Choice([word.value for word in OnUnknown]),
    default=OnUnknown.RESEND.value,
    show_default=True,
    help="Where nobody can tell whether the relay took it: send it again, or hold it and ask.",
)
@json_option
def enqueue(
    to: tuple[str, ...],
    key: str,
    template_key: str,
    priority: int,
    not_before: Given | None,
    expires: Given | None,
    supersede_key: str | None,
    on_unknown: str,
    as_json: bool,
    **content: Any,
) -> None:
    """Put one message into the outbox.

    The same key again adds nothing and shows what is there. A text with a secret in it is better read from standard
    input or a file: arguments stand in the shell's history and in the list of processes.

    \b
    Examples:
      outbox-admin enqueue --to jane@customer.example --subject Hello --text "Hello Jane." --key hello:1
      outbox-admin enqueue --to jane@customer.example --subject Link --text - --key link:1 < link.txt
      outbox-admin enqueue --eml notice.eml --to jane@customer.example --key notice:7 --not-before 2h
    """
    message = _message(to, **content)
    with desk(Role.PRODUCER) as at:
        options = OptionValues(
            template_key=template_key,
            priority=priority,
            not_before=None if not_before is None else ahead(not_before, at.now),
            expires_at=None if expires is None else ahead(expires, at.now),
            supersede_key=supersede_key,
            on_unknown=on_unknown,
        )
        receipt = assemble.outbox(at.settings).enqueue(at.db, message, idempotency_key=key, **options)
    _show(receipt, as_json)


def _message(
    to: tuple[str, ...],
    *,
    subject: str | None,
    text: str | None,
    html: str | None,
    attach: tuple[Path, ...],
    eml: BinaryIO | None,
) -> AnyMessage:
    if eml is not None:
        if attach or any(part is not None for part in (subject, text, html)):
            raise click.UsageError(
                "--eml is a whole message; --subject, --text, --html and --attach do not go with it."
            )
        return Message.from_mime(eml.read(), to=to or None)
    if not to or subject is None or (text is None and html is None):
        raise click.UsageError("Give --to, --subject and --text or --html; or --eml.")
    return Message(
        to,
        subject,
        text,
        html,
        attachments=[_attachment(file) for file in attach],
    )


def _attachment(file: Path) -> Attachment:
    """A mail file goes as plain octets: RFC 2046 allows no transfer encoding for message types but 7bit and 8bit."""
    kind, encoding = mimetypes.guess_type(file.name)
    is_plain = kind is not None and encoding is None and not kind.startswith(("message/", "multipart/"))
    return Attachment(file.name, file.read_bytes(), kind if is_plain and kind else "application/octet-stream")


def _show(receipt: Receipt, as_json: bool) -> None:
    if as_json:
        rows = [{"id": row.id, "recipient": row.recipient, "state": row.state} for row in receipt.rows]
        suppressed = [row.recipient for row in receipt.suppressed]
        print_json({"id": receipt.id, "created": receipt.created, "rows": rows, "suppressed": suppressed})
        return
    click.echo("In the outbox:" if receipt.created else "The key is known; nothing was added:")
    print_table(("id", "recipient", "state"), [(row.id, row.recipient, row.state) for row in receipt.rows])
    for row in receipt.suppressed:
        click.echo(f"{row.recipient} is on the suppression list: nothing is sent to it.")
