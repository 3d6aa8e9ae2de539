"""Cures that depend on where it happened, not only on what: the same time-out means a firewall, a wrong port or doubt.

Sentences for the person on call. Built from phase, kind and code alone.
"""

from __future__ import annotations

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.replycode import LOGIN_CODES, is_temporary

_LOGIN_WANTED = (
    "The relay wants a login or TLS first: check OUTBOX_SMTP_USER, OUTBOX_SMTP_PASSWORD and OUTBOX_SMTP_TLS."
)
_IN_DOUBT = (
    "The relay may have taken it: look for its Message-ID in the relay's log before you send it again."
)
_CUT_OFF = "The relay, or something on the way, ended the connection: look at the relay's log and its limits."
_NO_ANSWER = "Nothing answers there: check host and port in OUTBOX_SMTP_URL, and the firewall."
_SILENT = "It takes the connection and says nothing: a port that wants TLS at once (465) needs OUTBOX_SMTP_TLS=smtps."
_NO_SMTP = "What answers there does not speak SMTP as expected: check host and port in OUTBOX_SMTP_URL."
_NO_HANDSHAKE = (
    "smtps speaks TLS at once (port 465), starttls only after EHLO (587): check OUTBOX_SMTP_TLS and the port."
)
_MACHINE_REFUSED = (
    "The relay refuses this machine: check the networks that it allows, and block lists for our address."
)
_NO_RELAYING = "The relay does not relay for us: check our login and its allowed networks, then retry."
_MAYBE_LATER = (
    "The relay may take the recipient later; if it does not, correct the address where it was entered."
)
_LOGIN = "Check OUTBOX_SMTP_USER and OUTBOX_SMTP_PASSWORD; once the login works, mail goes on by itself."


def particular(cause: Cause) -> str | None:
    """The cure for this kind at this place, None where the kind alone tells enough."""
    if cause.code in LOGIN_CODES:
        return _LOGIN_WANTED
    match cause.phase, cause.kind:
        case Phase.DOT, (Kind.NETWORK | Kind.TIMEOUT | Kind.PROTOCOL):
            return _IN_DOUBT
        case Phase.CONNECT, (Kind.NETWORK | Kind.TIMEOUT):
            return _NO_ANSWER
        case _, Kind.NETWORK:
            return _CUT_OFF
        case Phase.GREETING, Kind.TIMEOUT:
            return _SILENT
        case ((Phase.GREETING | Phase.EHLO), Kind.PROTOCOL):
            return _NO_SMTP
        case Phase.TLS, (Kind.PROTOCOL | Kind.TIMEOUT):
            return _NO_HANDSHAKE
        case ((Phase.GREETING | Phase.EHLO), Kind.SENDER_REFUSED):
            return _MACHINE_REFUSED
        case Phase.RCPT, Kind.SENDER_REFUSED:
            return _NO_RELAYING
        case _, Kind.AUTH_REJECTED:
            return _LOGIN
        case _, Kind.RECIPIENT_REJECTED if cause.code is not None and is_temporary(cause.code):
            return _MAYBE_LATER
        case _:
            return None


def lost_in_talk(cause: Cause) -> bool:
    """The network failed after the relay had been reached: "not reachable" would send people to the wrong place."""
    return cause.kind is Kind.NETWORK and cause.phase not in (Phase.PREPARE, Phase.CONNECT)
