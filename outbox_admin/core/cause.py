"""The restricted account of a failure: where, what kind, which codes. Never provider text.

A :class:`Cause` is all that lists, logs and pages may know of an error. The text behind it travels beside it as
``raw`` and is only ever stored sealed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """Where in the walk of one message it happened, in the order of the walk."""

    PREPARE = "prepare"  #: before any connection: opening the payload, rendering, composing
    CONNECT = "connect"
    GREETING = "greeting"
    EHLO = "ehlo"
    TLS = "tls"
    AUTH = "auth"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA = "data"  #: the DATA command and its 354
    CONTENT = "content"  #: writing the message
    DOT = "dot"  #: waiting for the reply to the final dot
    LEASE = "lease"  #: the worker that held the row was lost


class Kind(StrEnum):
    """What sort of failure; the catalogue sentences of the console are keyed by it."""

    DNS = "dns"
    NETWORK = "network"
    TIMEOUT = "timeout"
    TLS_UNAVAILABLE = "tls_unavailable"
    TLS_VERIFY = "tls_verify"
    AUTH_REJECTED = "auth_rejected"
    SENDER_REJECTED = "sender_rejected"  #: MAIL refused for this sender address
    SENDER_REFUSED = "sender_refused"  #: the relay will not take mail from us (530, 538, 5.7.x): ours to cure
    RECIPIENT_REJECTED = "recipient_rejected"
    MESSAGE_REJECTED = "message_rejected"
    THROTTLED = "throttled"
    MAILBOX_FULL = "mailbox_full"
    PROTOCOL = "protocol"
    PAYLOAD_UNREADABLE = "payload_unreadable"
    PAYLOAD_INVALID = "payload_invalid"
    LEASE_EXPIRED = "lease_expired"
    WORKER_LOST = "worker_lost"
    TEMPLATE = "template"
    UNSUPPORTED = "unsupported"  #: the message needs an extension that the relay lacks
    TOO_LARGE = "too_large"
    SUPPRESSED = "suppressed"
    EXPIRED = "expired"
    GAVE_UP = "gave_up"
    COPIED = "copied"  #: it waited when this database was copied: the original may have sent it
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Cause:
    """``code`` is a three-digit SMTP reply, ``enhanced`` an RFC 3463 code, ``hint`` allow-listed words only.

    ``ref`` is the keyed fingerprint of the raw text (16 hex digits): equal errors share it. It is filled in where
    the key ring is.
    """

    phase: Phase
    kind: Kind
    code: int | None = None
    enhanced: str | None = None
    hint: str | None = None
    ref: str | None = None
