"""RFC 2047: text to encoded-words. Every word holds whole characters and decodes by itself; none is empty.

No word exceeds 75 characters, and the first can be kept shorter where something stands before it. The choice of Q or B
is the shorter one. Only the letters that section 5 (3) allows in a phrase stay as they are, so the words fit anywhere.
"""

from __future__ import annotations

import binascii
import string

MAX_WORD = 75
_FRAME = len("=?utf-8?q??=")
_CONTINUATION = "89AB"  #: the first hex digit of a UTF-8 continuation octet

#: a word needs room for one character of four octets, each written =XX
MIN_ROOM = _FRAME + 12

_KEPT = frozenset((string.ascii_letters + string.digits + "!*+-/").encode())
_Q = [chr(octet) if octet in _KEPT else f"={octet:02X}" for octet in range(256)]
_Q[0x20] = "_"


def encode(text: str, *, first: int = MAX_WORD) -> list[str]:
    """The words of ``text`` (not empty), to be separated by folding white space. ``first``: room of the first word."""
    data = text.encode()
    quoted = "".join([_Q[octet] for octet in data])
    if len(quoted) <= (len(data) + 2) // 3 * 4:
        pieces = cut_escaped(quoted, escape="=", first=first - _FRAME, rest=MAX_WORD - _FRAME)
        return [f"=?utf-8?q?{piece}?=" for piece in pieces]
    return [f"=?utf-8?b?{_base64(piece)}?=" for piece in _cut_octets(data, first=first)]


def cut_escaped(text: str, *, escape: str, first: int, rest: int) -> list[str]:
    """Cut text with escapes like ``=C3=A9`` into pieces of whole UTF-8 characters, at most ``first`` and ``rest`` long.

    Both leave room for one character (12). Octets that are not UTF-8 are cut between any two.
    """
    pieces = []
    start, end = 0, first
    while end < len(text):
        if text[end - 1] == escape:
            end -= 1
        elif text[end - 2] == escape:
            end -= 2
        for _ in range(3):
            if text[end] == escape and text[end + 1] in _CONTINUATION:
                end -= 3
        pieces.append(text[start:end])
        start, end = end, end + rest
    pieces.append(text[start:])
    return pieces


def _cut_octets(data: bytes, *, first: int) -> list[bytes]:
    pieces = []
    start, room = 0, first
    while start < len(data):
        end = start + (room - _FRAME) // 4 * 3
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        pieces.append(data[start:end])
        start, room = end, MAX_WORD
    return pieces


def _base64(octets: bytes) -> str:
    return binascii.b2a_base64(octets, newline=False).decode()
