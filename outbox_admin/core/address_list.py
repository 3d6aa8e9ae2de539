"""The address fields of a given message (RFC 5322 3.4): lists, groups, comments and quoted names, down to mailboxes."""

from __future__ import annotations

import re

from outbox_admin.core.address import Mailbox, check_name, parse
from outbox_admin.errors import MessageRefused

_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|<[^<>]*>|[,;:()]|\\.|[^\s",;:<>()\\]+|\s+|.', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def parse_list(text: str, *, field: str) -> list[Mailbox]:
    """Every mailbox of an unfolded address field, in its order. Raises :class:`MessageRefused`.

    Encoded-words in names stay as they are.
    """
    mailboxes: list[Mailbox] = []
    words: list[str] = []
    for piece in [*_without_comments(text, field=field), ","]:
        if piece in {",", ";"}:
            if words:
                mailboxes.append(_mailbox(words, field=field))
            words = []
        elif piece == ":":
            words = []  # what stood before it names a group
        else:
            words.append(piece)
    return mailboxes


def _without_comments(text: str, *, field: str) -> list[str]:
    kept: list[str] = []
    depth = 0
    for piece in _PIECE.findall(text):
        if piece == "(":
            depth += 1
        elif piece == ")" and depth:
            depth -= 1
        elif not depth and not piece.isspace():
            kept.append(piece)
    if depth:
        raise MessageRefused(field, "a comment is not closed")
    return kept


def _mailbox(words: list[str], *, field: str) -> Mailbox:
    *shown, last = words
    if not last.startswith("<"):
        if shown:
            raise MessageRefused(field, "holds something that is not an address")
        return Mailbox("", parse(last, field=field))
    name = " ".join(_ESCAPED.sub(r"\1", word[1:-1]) if word.startswith('"') else word for word in shown)
    return Mailbox(check_name(name, field=field), parse(last[1:-1], field=field))
