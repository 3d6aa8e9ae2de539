"""What the demo sends: four kinds of mail as an ordinary shop writes them, and recipients whose names say what comes.

Only messages; who sends them when, and what becomes of them, is decided by the demo command.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, cycle

from outbox_admin.core.message import Attachment, Message

DOMAIN = "customer.example"
NAMES = (
    "Ada Okafor",
    "Björn Sørensen",
    "Chiara Conti",
    "Dmitri Petrov",
    "Esra Yıldız",
    "Finn O'Malley",
    "高橋 葵",
)
LINK = "https://shop.example"


@dataclass(frozen=True, slots=True)
class Letter:
    """One call of enqueue. ``priority``: 0 urgent, 1 normal, 2 bulk."""

    message: Message
    key: str
    template_key: str
    priority: int = 1


def traffic() -> Iterator[Letter]:
    """Without end, the four kinds in turn. Most addresses take everything; some take it later, few refuse."""
    makers = cycle((verify, invite, invoice, reset))
    for number, name, make in zip(count(1), cycle(NAMES), makers, strict=False):
        yield make(f"{name} <{_local_part(number)}@{DOMAIN}>", number)


def _local_part(number: int) -> str:
    """What the demo's relay goes by, up to the plus sign."""
    if number % 9 == 5:
        return f"deferred-once+{number}"
    return f"refused+{number}" if number % 16 == 11 else f"customer-{number}"


def verify(to: str, number: int) -> Letter:
    """The link of a new account."""
    link = f"{LINK}/verify/{_token(number)}"
    text = f"Welcome to the shop.\n\nPlease confirm your address:\n{link}\n\nThe link is good for one day.\n"
    message = Message(
        to, "Please confirm your address", text, _html("Welcome to the shop", "Confirm address", link)
    )
    return Letter(message, f"verify:{number}", "account.verify", priority=0)


def invite(to: str, number: int) -> Letter:
    """An invitation, with the colleague who invites as the address for answers."""
    link = f"{LINK}/join/{_token(number)}"
    text = f"Grace Ito invites you to the workspace “Warehouse North”.\n\nJoin here:\n{link}\n"
    html = _html("Grace Ito invites you to “Warehouse North”", "Join the workspace", link)
    message = Message(
        to,
        "Grace Ito invites you to “Warehouse North”",
        text,
        html,
        reply_to="Grace Ito <grace@shop.example>",
    )
    return Letter(message, f"invite:{number}", "workspace.invite")


def invoice(to: str, number: int) -> Letter:
    """An invoice with its file."""
    name = f"2026-{number:04}"
    text = f"Dear customer,\n\nyour invoice {name} over 48.00 € is attached; payable within 14 days.\n"
    html = _html(f"Invoice {name}", "See the invoice", f"{LINK}/invoices/{name}")
    lines = f"item;count;price\r\nGreen tea, 100 g;2;24.00\r\ntotal;;48.00\r\nnumber;;{name}\r\n"
    file = Attachment(f"invoice-{name}.csv", lines.encode(), "text/csv")
    message = Message(to, f"Your invoice {name} — 48.00 €", text, html, attachments=[file])
    return Letter(message, f"invoice:{name}", "invoice.notice", priority=2)


def reset(to: str, number: int) -> Letter:
    """The link to a new password: the mail that people wait for."""
    link = f"{LINK}/reset/{_token(number)}"
    text = f"Somebody, probably you, asked for a new password.\n\nChoose one here within an hour:\n{link}\n"
    message = Message(to, "Choose a new password", text, _html("Choose a new password", "New password", link))
    return Letter(message, f"reset:{number}", "password.reset", priority=0)


def _token(number: int) -> str:
    """Looks like a secret, and is none: the demo's links lead nowhere."""
    return f"demo-{number * 7919 % 1_000_003:06x}"


def _html(title: str, action: str, link: str) -> str:
    return (
        f'<!doctype html><html lang="en"><body><h1>{title}</h1>'
        f'<p><a href="{link}">{action}</a></p><p>The Shop, Example Street 1</p></body></html>\n'
    )
