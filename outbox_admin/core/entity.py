"""A given message taken apart octet by octet (RFC 5322 fields, RFC 2046 parts), so that what is left alone stays equal.

Knows no policy: which field goes and which part is encoded anew is decided in :mod:`outbox_admin.core.given`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from outbox_admin.core.body import MAX_LINE, has_long_line
from outbox_admin.errors import MessageRefused

_BREAK = rb"(?>\r\n|\r|\n)"
_BLANK_LINE = re.compile(_BREAK + _BREAK)
_ANY_BREAK = re.compile(rb"\r\n?|\n")
_LF = re.compile(rb"(?<!\r)\n")
_NAME = re.compile(rb"([!-9;-~]+)[ \t]*:")
_PARAMETER = re.compile(r';\s*([^\s=;]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)', re.DOTALL)
_QUOTED_PAIR = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True, repr=False)
class Field:
    """``raw`` is the whole field with its name and CRLF line ends."""

    name: str
    raw: bytes

    @property
    def value(self) -> str:
        """Unfolded (RFC 5322 2.2.3). Raises :class:`MessageRefused` where it is neither ASCII nor UTF-8."""
        try:
            return self.raw.partition(b":")[2].replace(b"\r\n", b"").decode().strip(" \t")
        except UnicodeDecodeError:
            raise MessageRefused(f"message.{self.name}", "is neither ASCII nor UTF-8") from None

    @property
    def longest(self) -> int:
        """Octets of its longest line, CRLF not counted."""
        return max(map(len, self.raw.split(b"\r\n")))


@dataclass(frozen=True, slots=True, repr=False)
class Entity:
    """The fields and the body octets of a message or one of its parts."""

    fields: tuple[Field, ...]
    body: bytes

    def get(self, name: str) -> str:
        """The first field of that name (lower case), or the empty text."""
        return next((field.value for field in self.fields if field.name == name), "")

    @property
    def octets(self) -> bytes:
        """The whole entity again."""
        return b"".join([field.raw for field in self.fields]) + b"\r\n" + self.body


@dataclass(frozen=True, slots=True, repr=False)
class Parts:
    """A multipart body: what stands before, between and after its delimiters."""

    boundary: bytes
    preamble: bytes | None
    entities: tuple[bytes, ...]
    epilogue: bytes | None

    def join(self, entities: Sequence[bytes]) -> bytes:
        """The body again, with ``entities`` in place of its own."""
        pieces = [] if self.preamble is None else [self.preamble, b"\r\n"]
        for entity in entities:
            pieces += [b"--", self.boundary, b"\r\n", entity, b"\r\n"]
        pieces += [b"--", self.boundary, b"--", b"" if self.epilogue is None else b"\r\n" + self.epilogue]
        return b"".join(pieces)


def conforms(octets: bytes) -> bool:
    """7-bit, CRLF and nothing else as line break, no NUL, no line over 998: may travel as it is."""
    return octets.isascii() and b"\0" not in octets and has_proper_lines(octets)


def has_proper_lines(octets: bytes) -> bool:
    """Every CR and LF belongs to a CRLF, no line is longer than 998 octets."""
    breaks = octets.count(b"\r\n")
    if octets.count(b"\r") != breaks or octets.count(b"\n") != breaks:
        return False
    tail = len(octets) - octets.rfind(b"\n") - 1
    return tail <= MAX_LINE and not has_long_line(octets, limit=MAX_LINE + 1)  # the CR counts there


def to_crlf(octets: bytes) -> bytes:
    """Every kind of line break as CRLF."""
    return _ANY_BREAK.sub(b"\r\n", octets)


def from_unix(octets: bytes) -> bytes:
    """LF as CRLF, as a transport does it with a stored file; bare CR stays."""
    return _LF.sub(b"\r\n", octets)


def take_apart(octets: bytes) -> Entity:
    """Raises :class:`MessageRefused` where the header is none."""
    if octets.startswith((b"\r\n", b"\n")):
        return Entity((), octets.removeprefix(b"\r").removeprefix(b"\n"))
    match = _BLANK_LINE.search(octets)
    head, body = (octets[: match.start()], octets[match.end() :]) if match else (octets, b"")
    return Entity(tuple(_fields(head.replace(b"\r\n", b"\n").rstrip(b"\n"))), body)


def _fields(head: bytes) -> list[Field]:
    if b"\r" in head or b"\0" in head:
        raise MessageRefused("message", "its header holds a bare carriage return or NUL")
    fields: list[Field] = []
    if not head:
        return fields
    for number, line in enumerate(head.split(b"\n"), 1):
        if line.startswith((b" ", b"\t")) and fields:
            fields[-1] = Field(fields[-1].name, fields[-1].raw + line + b"\r\n")
        elif match := _NAME.match(line):
            fields.append(Field(match[1].decode().lower(), line + b"\r\n"))
        elif number > 1 or not line.startswith((b"From ", b">From ")):  # an mbox file's separator is no field
            raise MessageRefused("message", f"line {number} of a header is not a field")
    return fields


def parameters(value: str) -> tuple[str, list[tuple[str, str]]]:
    """``text/plain; charset="utf-8"`` to its lower-case type and its parameters."""
    kind, _, _ = value.partition(";")
    found = []
    for name, given in _PARAMETER.findall(value):
        content = given.strip()
        if content.startswith('"') and content.endswith('"') and len(content) > 1:
            content = _QUOTED_PAIR.sub(r"\1", content[1:-1])
        found.append((name.lower(), content))
    return kind.strip().lower(), found


def split_parts(body: bytes, boundary: str) -> Parts | None:
    """None where no delimiter stands in the body (RFC 2046 5.1.1)."""
    mark = boundary.encode()
    pattern = re.compile(rb"(?:\A|(?<=[\r\n]))--" + re.escape(mark) + rb"(--)?[ \t]*(?:\r\n|\r|\n|\Z)")
    entities: list[bytes] = []
    preamble: bytes | None = None
    start: int | None = None
    for match in pattern.finditer(body):
        before = _without_break(body[start or 0 : match.start()])
        if start is not None:
            entities.append(before)
        elif match.start():
            preamble = before
        start = match.end()
        if match[1]:
            epilogue = body[start:] if match[0].endswith((b"\r", b"\n")) else None
            return Parts(mark, preamble, tuple(entities), epilogue)
    if start is None:
        return None
    return Parts(mark, preamble, (*entities, _without_break(body[start:])), b"")


def _without_break(octets: bytes) -> bytes:
    """The line break before a delimiter belongs to the delimiter."""
    if octets.endswith(b"\r\n"):
        return octets[:-2]
    return octets[:-1] if octets.endswith((b"\r", b"\n")) else octets
