"""The name under which the relay keeps the message, out of the text of its acceptance. Never an address.

The text is foreign: whatever it holds, this gives a short harmless word or None, and never fails.
"""

from __future__ import annotations

import re

_LOOKED_AT = 2048
_LONGEST = 200
_FOREIGN = re.compile(r"[^A-Za-z0-9._:+=@/-]")
_ENHANCED = r"(?:2\.[0-9]{1,3}\.[0-9]{1,3}[ ]+)?"

#: How relays say it, the clearest first. Each has one group.
_FORMS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\bqueued\s+as\s+(\S+)",  # Postfix, Halon, Mailjet, most of the others
        r"\bid[=:]\s*(\S+)",  # Exim: OK id=1abcDE-000001-2F
        r"\bInternalId=(\d+)",  # Exchange: <...> [InternalId=123456, Hostname=...] Queued mail for delivery
        r"\bqueued\s+\(([0-9A-F-]{16,}[^)\s]*)\)",  # Haraka: Message Queued (UUID)
        rf"^\s*{_ENHANCED}(?![0-9.]+\s)(\S+)\s+message\s+accepted\b",  # Sendmail, OpenSMTPD
        r"\bqp\s+(\d+)\b",  # qmail: ok 1700000000 qp 12345
        rf"^\s*{_ENHANCED}ok:?\s+\d{{9,11}}\s+(\S+)\s+-\s+\S+",  # Gmail: 2.0.0 OK 1700000000 abc12.3 - gsmtp
        rf"^\s*{_ENHANCED}ok:?\s+(\S*\d\S*)\s*$",  # Amazon SES and others: Ok 0102018f-...
    )
)


def provider_id(text: str) -> str | None:
    """At most 200 characters of ``[A-Za-z0-9._:+=/-]``, or None.

    What holds an at sign is left out altogether: a relay may name the recipient where an identifier is expected.
    """
    cut = text[:_LOOKED_AT]
    for form in _FORMS:
        found = form.search(cut)
        if found is not None:
            return _cleaned(found[1])
    return None


def _cleaned(word: str) -> str | None:
    if "@" in word:
        return None
    return _FOREIGN.sub("", word).strip(".,:;")[:_LONGEST] or None
