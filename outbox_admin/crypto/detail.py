"""The text behind an error, made fit to be sealed and later printed on a terminal: one line, no controls, bounded."""

from __future__ import annotations

import unicodedata

DETAIL_LIMIT = 500  #: characters that are kept
_LOOKED_AT = 4 * DETAIL_LIMIT

#: Controls, formats (bidi and zero-width), surrogates, private and unassigned signs, line and paragraph ends.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean(text: str) -> str:
    """At most 500 characters; what cannot be printed becomes one blank."""
    kept = (" " if unicodedata.category(sign) in _UNPRINTABLE else sign for sign in text[:_LOOKED_AT])
    return " ".join("".join(kept).split())[:DETAIL_LIMIT]
