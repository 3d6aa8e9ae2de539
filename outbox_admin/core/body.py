"""Body text to octets that any relay takes: 7-bit, CRLF, lines within bounds (RFC 5321 4.5.3.1.6, RFC 2045 6.7, 6.8).

Line breaks of every kind become CRLF; nothing else of the text changes. Text goes as it is where that is safe, else
as quoted-printable or base64, whichever is shorter.
"""

from __future__ import annotations

import binascii
import re
import string

from outbox_admin.core.encoded_words import cut_escaped

MAX_LINE = 998

#: How every boundary begins; no encoded part can contain it, and plain text with it is not sent plainly.
BOUNDARY_MARK = "=_"

_BREAK = re.compile(r"\r\n?")
_PLAIN = (string.ascii_letters + string.digits + string.punctuation + " \t\n").encode()
_KEPT = _PLAIN + b"\r"
_COLUMNS = 76
_DELIMITER = f"--{BOUNDARY_MARK}".encode()


def encode_text(text: str) -> tuple[str, bytes]:
    """Content-Transfer-Encoding and octets of ``text``. Raises UnicodeEncodeError for half a surrogate pair."""
    if "\r" in text:
        text = _BREAK.sub("\n", text)
    data = text.encode()
    odd = len(data.translate(None, _PLAIN))
    if not odd and _stays_as_it_is(data):
        return "7bit", data.replace(b"\n", b"\r\n")
    data = data.replace(b"\n", b"\r\n")
    if len(data) + 2 * (odd + data.count(b"=")) <= (len(data) + 2) // 3 * 4:
        return "quoted-printable", quoted_printable(data)
    return "base64", base64_lines(data)


def quoted_printable(data: bytes) -> bytes:
    """``data`` has CRLF line breaks only. The word "From " is masked: mbox files alter lines that begin with it.

    (``binascii.b2a_qp`` passes 76 columns where a line ends in a blank, and tears characters.)
    """
    data = data.replace(b"=", b"=3D")
    for octet in set(data.translate(None, _KEPT)):  # few of the 256: faster than looking at every octet
        data = data.replace(bytes((octet,)), b"=%02X" % octet)
    data = data.replace(b"From ", b"=46rom ").replace(b" \r\n", b"=20\r\n").replace(b"\t\r\n", b"=09\r\n")
    if data.endswith((b" ", b"\t")):
        data = data[:-1] + b"=%02X" % data[-1]
    if len(data) > _COLUMNS:
        lines = [line if len(line) <= _COLUMNS else _softly(line) for line in data.split(b"\r\n")]
        data = b"\r\n".join(lines)
    return data


def _softly(line: bytes) -> bytes:
    """Over several lines, whole characters in each; the last column is for the soft break."""
    pieces = cut_escaped(line.decode("ascii"), escape="=", first=_COLUMNS - 1, rest=_COLUMNS - 1)
    return "=\r\n".join(pieces).encode("ascii")


def base64_lines(data: bytes) -> bytes:
    """Lines of 76, each ended by CRLF."""
    encoded = binascii.b2a_base64(data, newline=False)
    lines = [encoded[start : start + _COLUMNS] for start in range(0, len(encoded), _COLUMNS)]
    lines.append(b"")
    return b"\r\n".join(lines)


def _stays_as_it_is(data: bytes) -> bool:
    """False where some relay or mailbox would alter a line, or take it for a boundary."""
    if b" \n" in data or (b"\t" in data and b"\t\n" in data) or data.endswith((b" ", b"\t")):
        return False
    if b"From " in data and (data.startswith(b"From ") or b"\nFrom " in data):
        return False
    if b"=" in data and _DELIMITER in data:
        return False
    return not has_long_line(data)


def has_long_line(data: bytes, *, limit: int = MAX_LINE) -> bool:
    """True where more than ``limit`` octets stand between two LF. Leaps from the last LF within reach to the next."""
    start = 0
    while len(data) - start > limit:
        end = data.rfind(b"\n", start, start + limit + 1)
        if end < 0:
            return True
        start = end + 1
    return False
