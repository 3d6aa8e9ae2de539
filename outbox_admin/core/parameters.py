"""Parameters of Content-Type and Content-Disposition: file names by RFC 2231, with a fallback that is plain ASCII."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

from outbox_admin.core.encoded_words import cut_escaped

_ROOM = 60  #: characters of one value: with its name it stays on a line of 76
_SIMPLE = re.compile(r"[A-Za-z0-9 !#$&'()*+,\-./:;<=>?@\[\]^_`{|}~]+")
_ATTRIBUTE = "!#$&+-.^_`|~"  #: RFC 2231 attribute-char, beyond letters and digits
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def parameter(name: str, value: str) -> str:
    """``; name="value"`` on lines of its own; what needs it is written as ``name*=utf-8''…``, cut by RFC 2231 3."""
    if len(value) <= _ROOM and _SIMPLE.fullmatch(value) and value.strip(" ") == value and "=?" not in value:
        return f';\r\n {name}="{value}"'
    escaped = quote(value, safe=_ATTRIBUTE)
    pieces = cut_escaped(escaped, escape="%", first=_ROOM - len("utf-8''"), rest=_ROOM)
    if len(pieces) == 1:
        return f";\r\n {name}*=utf-8''{escaped}"
    pieces[0] = "utf-8''" + pieces[0]
    return "".join(f";\r\n {name}*{number}*={piece}" for number, piece in enumerate(pieces))


def plain_file_name(name: str) -> str:
    """For readers that know no RFC 2231: ASCII letters, digits, dot, dash; at most 60 characters, ending kept."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    stem, dot, ending = _UNSAFE.sub("_", ascii_name).rpartition(".")
    if not dot:
        stem, ending = ending, ""
    ending = ending[:16]
    return (stem.strip("._")[: _ROOM - 17] or "file") + dot + ending
