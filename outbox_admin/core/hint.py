"""A hint from a relay's text: only words that every SMTP server knows, reply codes and enhanced codes.

An allow-list, not redaction: an address, a token, a name or markup is not among the words, so it cannot come through,
however it is written. Linear in the length of the input, of which two kibibytes are looked at.
"""

from __future__ import annotations

import re

from outbox_admin.core.vocabulary import VOCABULARY

LONGEST = 200  #: characters of a hint
_LOOKED_AT = 2048
_GAP = "…"
_AROUND = ".,:;!?()[]{}<>\"'`*#-_=/"
_REPLY_CODE = re.compile(r"[245][0-5][0-9]")
_ENHANCED_CODE = re.compile(r"[245]\.[0-9]{1,3}\.[0-9]{1,3}")


def hint(raw: str) -> str | None:
    """At most 200 characters, or None where no known word is in the text. Every run of foreign words is one ``…``."""
    words: list[str] = []
    length = -1
    for token in raw[:_LOOKED_AT].split():
        word = _known(token)
        if word == _GAP and words and words[-1] == _GAP:
            continue
        length += 1 + len(word)
        if length > LONGEST:
            break
        words.append(word)
    return " ".join(words) if any(word != _GAP for word in words) else None


def _known(token: str) -> str:
    word = token.strip(_AROUND).lower()
    if word in VOCABULARY or _REPLY_CODE.fullmatch(word) or _ENHANCED_CODE.fullmatch(word):
        return word
    return _GAP
