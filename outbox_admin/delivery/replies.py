"""Reads SMTP replies out of octets (RFC 5321 4.2). Pure: no socket, no clock.

Strict where a wrong reading would cost a message: a code is three digits, the same on every line of a reply. Tolerant
where nothing is at stake: a line may end in LF alone, the text may be missing or any octets. What is not a reply is
:class:`Malformed`; no code is ever made up for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_LINE = 4096  #: octets of one line, eight times what RFC 5321 4.5.3.1.5 allows
MAX_LINES = 128
#: Of one whole reply; also of one line of a positive one: what was accepted must not be sent again.
MAX_OCTETS = 65536

_CODES = {b"%d" % code: code for code in range(200, 600)}
_SHOWN = 500


class Malformed(Exception):
    """What arrived is no reply. ``raw`` is its beginning."""

    def __init__(self, raw: str) -> None:
        super().__init__("not an SMTP reply")
        self.raw = raw


@dataclass(frozen=True, slots=True)
class Answer:
    """A well-formed reply. ``text`` is what stands behind the codes, its lines joined by line feeds."""

    code: int
    text: str = field(default="", repr=False)


class ReplyBuffer:
    """Octets in, replies out, in bounded memory."""

    def __init__(self) -> None:
        self._octets = bytearray()
        self._scanned = 0
        self._begin()

    def __bool__(self) -> bool:
        """Whether anything lies here that no call of :meth:`take` has returned."""
        return bool(self._octets or self._lines)

    def feed(self, octets: bytes) -> None:
        self._octets += octets

    def take(self) -> Answer | None:
        """The next whole reply, or None while more is needed. Raises :class:`Malformed`."""
        if not self._octets:
            return None
        while (end := self._octets.find(b"\n", self._scanned)) >= 0:
            line = bytes(self._octets[:end]).removesuffix(b"\r")
            del self._octets[: end + 1]
            self._scanned = 0
            if not self._lines and (answer := _whole(line)) is not None:
                return answer
            if self._add(line):
                return self._finish()
        self._scanned = len(self._octets)
        if self._scanned > _longest(self._octets):
            raise Malformed(decoded(self._octets[:_SHOWN]))
        return None

    def _begin(self) -> None:
        self._code: bytes = b""
        self._lines: list[bytes] = []
        self._size = 0

    def _add(self, line: bytes) -> bool:
        """Takes one line without its end; True when it was the last of the reply."""
        code, mark = line[:3], line[3:4]
        self._size += len(line)
        fits = len(line) <= _longest(line) and self._size <= MAX_OCTETS and len(self._lines) < MAX_LINES
        if (
            not fits
            or code not in _CODES
            or mark not in (b" ", b"-", b"")
            or (self._lines and code != self._code)
        ):
            raise Malformed(decoded(line[:_SHOWN]))
        self._code = code
        self._lines.append(line[4:])
        return mark != b"-"

    def _finish(self) -> Answer:
        answer = Answer(_CODES[self._code], decoded(b"\n".join(self._lines)))
        self._begin()
        return answer


def _whole(line: bytes) -> Answer | None:
    """The reply that is this one line and no longer than any may be; most are."""
    code = _CODES.get(line[:3])
    if code is None or line[3:4] != b" " or len(line) > MAX_LINE:
        return None
    return Answer(code, decoded(line[4:]))


def _longest(line: bytes | bytearray) -> int:
    """How many octets this line may have, judged by its beginning."""
    return MAX_OCTETS if line.startswith(b"2") and bytes(line[:3]) in _CODES else MAX_LINE


def decoded(octets: bytes | bytearray) -> str:
    """As UTF-8 where it is, else one character for each octet: never an error."""
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets.decode("latin-1")
