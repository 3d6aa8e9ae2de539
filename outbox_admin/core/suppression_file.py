"""Reads a list of addresses that must not be mailed, as relays and providers export it. No file, no database here."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field

from outbox_admin.core.address import parse
from outbox_admin.core.hold import reason_of
from outbox_admin.errors import MessageRefused

#: What the first column is called in a line of names.
_TITLES = frozenset(
    {"address", "email", "e-mail", "email address", "email_address", "recipient", "recipients"}
)
_COMMENT = "#"


@dataclass(frozen=True, slots=True)
class BadLine:
    """``reason`` says what is wrong with it, and never repeats it."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """``reasons`` by the address's comparable form; ``repeated``: lines with an address that stood above already."""

    reasons: dict[str, str] = field(repr=False)
    bad: tuple[BadLine, ...]
    repeated: int


def read_listing(content: bytes, *, reason: str) -> Listing:
    """Every line is read, so that all bad ones are named at once. ``reason`` holds where a line gives none."""
    reasons: dict[str, str] = {}
    bad: list[BadLine] = []
    repeated = 0
    for number, line in _lines(content):
        try:
            key, why = _entry(line, reason)
        except MessageRefused as refusal:
            bad.append(BadLine(number, refusal.reason))
            continue
        repeated += key in reasons
        reasons.setdefault(key, why)
    return Listing(reasons, tuple(bad), repeated)


def _lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """What has something to say, with its number. The first of them may be the columns' names."""
    first = True
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith(_COMMENT.encode()):
            continue
        titled = line.split(b",")[0].strip(b'" \t').lower().decode("ascii", "replace") in _TITLES
        if not (first and titled):
            yield number, line
        first = False


def _entry(line: bytes, reason: str) -> tuple[str, str]:
    """Raises :class:`MessageRefused`."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise MessageRefused("line", "is not UTF-8") from None
    try:
        cells = next(csv.reader([text], strict=True, skipinitialspace=True))
    except csv.Error:
        raise MessageRefused("line", "has a quote that does not end") from None
    key = parse(cells[0], field="address").key
    given = cells[1].strip() if len(cells) > 1 else ""
    return key, reason_of(given) if given else reason
