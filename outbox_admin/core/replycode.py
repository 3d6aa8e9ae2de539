"""The two codes of an SMTP reply, and what they say about its kind. The text never decides.

RFC 5321 4.2 (reply codes), RFC 3463 and 2034 (enhanced codes).
"""

from __future__ import annotations

import re

from outbox_admin.core.cause import Kind, Phase

_ENHANCED = re.compile(r"\s*(([245])\.[0-9]{1,3}\.[0-9]{1,3})(?![0-9.])")

#: Our login or our right to send is what a relay speaks of (RFC 4954 6); the message was not judged.
LOGIN_CODES = frozenset({530, 538})
#: Our own order of commands was wrong, or so the relay thinks: nothing about the message.
BAD_SEQUENCE = 503
CLOSING = 421
EXCEEDED_STORAGE = 552
_UNKNOWN_COMMANDS = frozenset({500, 502, 504})
_UNKNOWN_PARAMETERS = 555


def is_temporary(code: int) -> bool:
    return 400 <= code <= 499


def is_permanent(code: int) -> bool:
    return 500 <= code <= 599


def is_refusal(code: int) -> bool:
    """A well-formed no. Anything else where a yes was due is a fault of the protocol."""
    return 400 <= code <= 599


def enhanced_code(code: int, text: str) -> str | None:
    """The code that stands at the beginning of the text; None where its class contradicts the reply's first digit."""
    found = _ENHANCED.match(text)
    if found is None or found[2] != str(code)[:1]:
        return None
    return found[1]


def is_policy(enhanced: str | None) -> bool:
    """X.7.X: security or policy."""
    return enhanced is not None and enhanced.split(".")[1] == "7"


def is_about_recipient(enhanced: str | None) -> bool:
    """5.1.X and 5.2.X: an address or its mailbox. Thirty dead addresses are no outage."""
    return (enhanced or "").startswith(("5.1.", "5.2."))


def kind_of(phase: Phase, code: int, enhanced: str | None) -> Kind:
    """What sort of refusal a reply is, at any phase."""
    if not is_refusal(code) or code == BAD_SEQUENCE:
        return Kind.PROTOCOL
    match phase:
        case Phase.CONNECT | Phase.GREETING | Phase.EHLO | Phase.TLS | Phase.AUTH:
            return _kind_before_mail(phase, code)
        case Phase.MAIL | Phase.RCPT | Phase.DATA | Phase.CONTENT | Phase.DOT:
            return _kind_of_message(phase, code, enhanced)
        case Phase.PREPARE | Phase.LEASE:
            raise ValueError(f"no relay replies in phase {phase}")


def _kind_before_mail(phase: Phase, code: int) -> Kind:
    if code == CLOSING:
        return Kind.THROTTLED
    if phase is Phase.TLS:
        return Kind.TLS_UNAVAILABLE
    if is_temporary(code):
        return Kind.THROTTLED
    if phase is Phase.AUTH:
        return Kind.AUTH_REJECTED
    return Kind.PROTOCOL if code in _UNKNOWN_COMMANDS else Kind.SENDER_REFUSED


def _kind_of_message(phase: Phase, code: int, enhanced: str | None) -> Kind:
    subject = "" if enhanced is None else enhanced[2:]
    if code in LOGIN_CODES:
        return Kind.SENDER_REFUSED
    if subject == "2.2":
        return Kind.MAILBOX_FULL
    if subject in ("2.3", "3.4"):
        return Kind.TOO_LARGE
    if subject in ("1.7", "1.8"):
        # Postfix keeps what it has against the sender until RCPT.
        return Kind.SENDER_REJECTED
    if code == EXCEEDED_STORAGE and not is_policy(enhanced):
        return Kind.TOO_LARGE if phase is Phase.MAIL else Kind.MAILBOX_FULL
    if is_temporary(code):
        return _REFUSED_BY_PHASE[phase] if subject.startswith("1.") else Kind.THROTTLED
    return _kind_of_permanent(phase, code, enhanced)


def _kind_of_permanent(phase: Phase, code: int, enhanced: str | None) -> Kind:
    if is_policy(enhanced) and phase in (Phase.MAIL, Phase.RCPT):
        # Before the content is known a policy can only be against us; after DATA it is against the content.
        return Kind.SENDER_REFUSED
    if code in _UNKNOWN_COMMANDS:
        return Kind.PROTOCOL
    if code == _UNKNOWN_PARAMETERS:
        return Kind.UNSUPPORTED
    return _REFUSED_BY_PHASE[phase]


_REFUSED_BY_PHASE = {
    Phase.MAIL: Kind.SENDER_REJECTED,
    Phase.RCPT: Kind.RECIPIENT_REJECTED,
    Phase.DATA: Kind.MESSAGE_REJECTED,
    Phase.CONTENT: Kind.MESSAGE_REJECTED,
    Phase.DOT: Kind.MESSAGE_REJECTED,
}
