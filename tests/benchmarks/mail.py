"""The message of all contenders, about 2 kB of text and HTML, and whether one that arrived is whole.

Every message has a number; recipient, subject and both texts carry it, so that none can stand for another.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path

SENDER = "no-reply@shop.example"
DOMAIN = "customer.example"
_LINES = 7
_NUMBER = re.compile(r"order (\d+) ")
#: What stands before each message in a dump of smtp-sink's, and in that of our own relay.
_START = re.compile(rb"^X-Client-Addr: ", re.MULTILINE)
_RECIPIENT = re.compile(rb"^X-Rcpt-Args: <([^>]*)>", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mail:
    number: int
    to: str
    subject: str
    text: str
    html: str


def mail(number: int) -> Mail:
    return Mail(
        number,
        f"customer-{number}@{DOMAIN}",
        f"Your order {number} is on its way",
        f"Dear customer {number},\n\n{_paragraphs('', '', number)}\nYour shop\n",
        f"<html><body><h1>Order {number}</h1>\n{_paragraphs('<p>', '</p>', number)}</body></html>\n",
    )


def _paragraphs(before: str, after: str, number: int) -> str:
    line = "your order {n} has left our house in parcel {i} and will be with you within a few days."
    return "".join(f"{before}{i}: {line.format(n=number, i=i)}{after}\n" for i in range(_LINES))


def sample() -> bytes:
    """One whole message with line ends as files have them, for smtp-source, which composes nothing."""
    one, message = mail(1), MIMEMultipart("alternative")
    message["From"], message["To"], message["Subject"] = SENDER, one.to, one.subject
    message.attach(MIMEText(one.text, "plain", "us-ascii"))
    message.attach(MIMEText(one.html, "html", "us-ascii"))
    return message.as_bytes()


def write_mails(file: Path, count: int) -> Path:
    """One JSON object a line, for contenders that live in an environment of their own."""
    with file.open("w") as lines:
        for number in range(count):
            one = mail(number)
            fields = {name: getattr(one, name) for name in ("number", "to", "subject", "text", "html")}
            lines.write(json.dumps(fields) + "\n")
    return file


@dataclass(slots=True)
class Arrived:
    """What a sink got: how often each number came, and what was wrong with any of them."""

    numbers: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def doubles(self) -> int:
        return sum(self.numbers.values()) - len(self.numbers)

    def complaints(self, expected: int) -> list[str]:
        """Empty when every message came, each as it was written; doubles are counted apart."""
        missing = expected - len(self.numbers)
        found = [f"{missing} of {expected} messages did not arrive"] if missing else []
        return found + self.faults[:5]


def check(dumps: Iterable[Path]) -> Arrived:
    """Reads every message with the standard library's parser, which none of the composers of ours shares."""
    arrived = Arrived()
    for dump in dumps:
        for octets in _messages(dump.read_bytes()):
            _check_one(octets, arrived)
    return arrived


def _messages(dump: bytes) -> Iterator[bytes]:
    starts = [found.start() for found in _START.finditer(dump)]
    for start, end in zip(starts, [*starts[1:], len(dump)], strict=True):
        yield dump[start:end]


def _check_one(octets: bytes, arrived: Arrived) -> None:
    message = message_from_bytes(octets)
    found = _NUMBER.search(str(message["Subject"]))
    if found is None:
        arrived.faults.append(f"a message without number: {octets[:200]!r}")
        return
    wanted = mail(int(found.group(1)))
    arrived.numbers[wanted.number] += 1
    texts = {part.get_content_type(): part.get_payload(decode=True) for part in message.walk()}
    told = _RECIPIENT.search(octets)
    for what, got, right in (
        ("recipient", told and told.group(1), wanted.to),
        ("text", texts.get("text/plain"), wanted.text),
        ("html", texts.get("text/html"), wanted.html),
    ):
        if _plain(got) != right.strip():
            arrived.faults.append(f"message {wanted.number}: the {what} differs: {got!r}")


def _plain(octets: object) -> str:
    """Line ends are the transport's; a contender may add one at the end."""
    return octets.decode().replace("\r\n", "\n").strip() if isinstance(octets, bytes) else ""


def check_copies(dumps: Iterable[Path], source: bytes) -> int:
    """smtp-source sends the same octets each time: how many came whole."""
    wanted = source.strip()
    return sum(octets.strip().endswith(wanted) for dump in dumps for octets in _messages(dump.read_bytes()))
