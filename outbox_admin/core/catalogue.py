"""One sentence for each restricted cause, and what cures it. The only error text that pages and ``show`` print.

Built from enums and integers alone, so nothing that a relay or a producer wrote can appear in it.
"""

from __future__ import annotations

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.cures import lost_in_talk, particular

PHASES = {
    Phase.PREPARE: "before sending",
    Phase.CONNECT: "while connecting",
    Phase.GREETING: "at the greeting",
    Phase.EHLO: "at EHLO",
    Phase.TLS: "at STARTTLS",
    Phase.AUTH: "at the login",
    Phase.MAIL: "at MAIL",
    Phase.RCPT: "at RCPT",
    Phase.DATA: "at DATA",
    Phase.CONTENT: "while the message was written",
    Phase.DOT: "after the final dot",
    Phase.LEASE: "in a worker's hands",
}

KINDS = {
    Kind.DNS: "Relay name not found",
    Kind.NETWORK: "Relay not reachable",
    Kind.TIMEOUT: "Relay did not answer in time",
    Kind.TLS_UNAVAILABLE: "Relay offers no TLS",
    Kind.TLS_VERIFY: "Relay certificate not trusted",
    Kind.AUTH_REJECTED: "Login refused by the relay",
    Kind.SENDER_REJECTED: "Sender address refused",
    Kind.SENDER_REFUSED: "Relay takes no mail from us",
    Kind.RECIPIENT_REJECTED: "Recipient refused",
    Kind.MESSAGE_REJECTED: "Message refused",
    Kind.THROTTLED: "Relay asks to slow down",
    Kind.MAILBOX_FULL: "Mailbox full",
    Kind.PROTOCOL: "Relay broke the protocol",
    Kind.PAYLOAD_UNREADABLE: "Payload cannot be opened",
    Kind.PAYLOAD_INVALID: "Payload is not a valid message",
    Kind.LEASE_EXPIRED: "Lease ended before the result",
    Kind.WORKER_LOST: "Worker ended while it held the message",
    Kind.TEMPLATE: "Template could not be rendered",
    Kind.UNSUPPORTED: "Relay lacks a needed extension",
    Kind.TOO_LARGE: "Message larger than the relay takes",
    Kind.SUPPRESSED: "Address is on the suppression list",
    Kind.EXPIRED: "Its time passed before it could be sent",
    Kind.GAVE_UP: "Given up after waiting too long",
    Kind.COPIED: "Perhaps sent from the original of this database",
    Kind.UNKNOWN: "Unexpected error",
}

_CURES = {
    Kind.DNS: "Check the host name of the relay and this machine's resolver.",
    Kind.NETWORK: "Check that the relay runs and that the network lets us reach its port.",
    Kind.TIMEOUT: "Check the relay's load and the network on the way.",
    Kind.TLS_UNAVAILABLE: "Check the relay's port and its TLS; nothing is sent in clear.",
    Kind.TLS_VERIFY: "Check the relay's certificate, its name and the CA file.",
    Kind.AUTH_REJECTED: "Check user name and password of the relay.",
    Kind.SENDER_REJECTED: "Check the sender address and what the relay allows for it.",
    Kind.SENDER_REFUSED: "Ask the relay's operator to accept mail from this account and address.",
    Kind.RECIPIENT_REJECTED: "Correct the address where it was entered; a retry cannot help.",
    Kind.MESSAGE_REJECTED: "Ask the relay's operator why; outbox-admin explain prints its answer.",
    Kind.THROTTLED: "What waits goes on by itself, what failed needs a retry; send slower if it stays.",
    Kind.MAILBOX_FULL: "The recipient has to make room; retry later.",
    Kind.PROTOCOL: "Look at the relay; outbox-admin explain prints what it said.",
    Kind.PAYLOAD_UNREADABLE: "The row or the key ring was altered; send it anew from the application.",
    Kind.PAYLOAD_INVALID: "The producer wrote something that is no message; send it anew from the application.",
    Kind.LEASE_EXPIRED: "Find out why the worker stalled.",
    Kind.WORKER_LOST: "Find out why the worker ended: its log, memory, the machine.",
    Kind.TEMPLATE: "Mend the template, then retry.",
    Kind.UNSUPPORTED: "Use a relay with this extension, or another address.",
    Kind.TOO_LARGE: "Send a smaller message, or raise the relay's limit and retry.",
    Kind.SUPPRESSED: "Take the address off the list if mail to it is wanted again.",
    Kind.EXPIRED: "Send it anew from the application.",
    Kind.GAVE_UP: "Cure what kept it waiting, then retry.",
    Kind.COPIED: "Look it up in the relay's log, then settle it: it arrived, send it again, or give it up.",
    Kind.UNKNOWN: "outbox-admin explain prints the details, where the key ring is.",
}

#: Outcomes of a try, as the attempt's history stores them.
OUTCOMES = {
    "accepted": "Accepted",
    "rejected": "Rejected",
    "deferred": "Deferred",
    "undeliverable": "Not deliverable as it is",
    "channel_fault": "Fault of the channel",
    "unknown": "Outcome unknown",
    "worker_lost": "Worker lost",
    "simulated": "Simulated",
}


def title(kind: str) -> str:
    """The catalogue's words for a kind; a kind of a later version is shown as unexpected, never printed."""
    return KINDS[_kind(kind)]


def words(cause: Cause) -> str:
    """``Recipient refused at RCPT (550 5.1.1)``."""
    codes = " ".join(str(code) for code in (cause.code, cause.enhanced) if code)
    placed = cause.phase is not Phase.PREPARE and cause.kind is not Kind.COPIED
    where = f" {PHASES[cause.phase]}" if placed else ""
    return f"{headline(cause)}{where}" + (f" ({codes})" if codes else "")


def headline(cause: Cause) -> str:
    """What happened, without place and codes."""
    return "Connection lost" if lost_in_talk(cause) else KINDS[cause.kind]


def cure(cause: Cause) -> str:
    """What to do about it, in one sentence."""
    return particular(cause) or _CURES[cause.kind]


def outcome(word: str) -> str:
    return OUTCOMES.get(word, "Other outcome")


def restore(
    phase: str | None,
    kind: str | None,
    code: int | None = None,
    enhanced: str | None = None,
    *,
    hint: str | None = None,
    ref: str | None = None,
) -> Cause | None:
    """A cause from its columns, None where there is none. Words of a later version become ``unknown``."""
    if kind is None:
        return None
    place = Phase(phase) if phase is not None and phase in PHASES else Phase.PREPARE
    return Cause(place, _kind(kind), code, enhanced, hint, ref)


def _kind(kind: str) -> Kind:
    return Kind(kind) if kind in KINDS else Kind.UNKNOWN
