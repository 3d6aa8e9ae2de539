"""What a reply of the relay, or its absence, means for one message. The three-digit code decides, never the text.

The table stands in the documentation ("What a reply means"); RFC 5321 4.2 is behind it. Pure: no socket, no clock.
Up to the login nothing that a relay says is about the message, so all of it is a fault of the channel: a changed
password must not wipe the queue.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.hint import hint
from outbox_admin.core.lifecycle import (
    Accepted,
    ChannelFault,
    Deferred,
    Outcome,
    Rejected,
    Undeliverable,
    Unknown,
)
from outbox_admin.core.provider_id import provider_id
from outbox_admin.core.replycode import (
    BAD_SEQUENCE,
    CLOSING,
    EXCEEDED_STORAGE,
    LOGIN_CODES,
    enhanced_code,
    is_permanent,
    is_policy,
    is_refusal,
    is_temporary,
    kind_of,
)

__all__ = ["Break", "Reply", "classify", "provider_id"]

_BEFORE_MAIL = frozenset({Phase.CONNECT, Phase.GREETING, Phase.EHLO, Phase.TLS, Phase.AUTH})
_RAW_LIMIT = 4096  #: characters of a reply that travel on; 500 of them are ever stored, sealed


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply where the session could not go on, or the one to the final dot.

    ``text``: its lines without the codes, joined, decoded leniently.
    """

    phase: Phase
    code: int
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Break:
    """No usable reply: timed out, lost, malformed, or the session would not go on by itself.

    ``raw`` is the text of the exception or of the malformed reply. ``begun``: the last write of the content had
    begun, so the relay may have all of it.
    """

    phase: Phase
    kind: Kind
    raw: str = field(default="", repr=False)
    begun: bool = False


def classify(event: Reply | Break, *, literal_5xx: bool) -> Outcome:
    """The outcome and its restricted cause; the text itself travels beside it as ``raw``.

    ``literal_5xx``: every 5yz to MAIL, RCPT, DATA and the final dot rejects, but for 530, which speaks of our login.
    """
    match event:
        case Reply():
            return _of_reply(event, literal_5xx=literal_5xx)
        case Break():
            return _of_break(event)


def _of_reply(reply: Reply, *, literal_5xx: bool) -> Outcome:
    if reply.phase is Phase.DOT and _is_acceptance(reply.code):
        return Accepted(provider_id(reply.text))
    cause, raw = _account(reply), f"{reply.code} {reply.text}"[:_RAW_LIMIT]
    if reply.phase in _BEFORE_MAIL:
        return ChannelFault(cause, raw)
    if reply.phase is Phase.CONTENT:
        # The dot is not written yet: whatever this is, it cannot be a judgement of the whole message.
        return Deferred(cause, raw)
    if is_permanent(reply.code):
        return (_literal if literal_5xx else _careful)(reply, cause, raw)
    if reply.phase is Phase.DOT:
        return Deferred(cause, raw) if is_temporary(reply.code) else Unknown(cause, raw)
    return ChannelFault(cause, raw) if reply.code == CLOSING else Deferred(cause, raw)


def _literal(reply: Reply, cause: Cause, raw: str) -> Outcome:
    return Deferred(cause, raw) if reply.code == 530 else Rejected(cause, raw)


def _careful(reply: Reply, cause: Cause, raw: str) -> Outcome:
    """A 5yz that speaks of us or of our command order is not the message's fault."""
    phase, code = reply.phase, reply.code
    if code in LOGIN_CODES or (phase is Phase.MAIL and is_policy(cause.enhanced)):
        return ChannelFault(cause, raw)
    if code == BAD_SEQUENCE and phase is not Phase.DOT:
        return Deferred(cause, raw)
    # Postfix says "client host blocked" and "relay access denied" here, and RFC 5321 4.5.3.1.10 wants 552 temporary.
    if phase is Phase.RCPT and (code == EXCEEDED_STORAGE or is_policy(cause.enhanced)):
        return Deferred(cause, raw)
    return Rejected(cause, raw)


def _of_break(event: Break) -> Outcome:
    cause, raw = Cause(event.phase, event.kind, hint=hint(event.raw)), event.raw[:_RAW_LIMIT]
    match event.phase:
        case Phase.CONNECT | Phase.GREETING | Phase.EHLO | Phase.TLS | Phase.AUTH:
            return ChannelFault(cause, raw)
        case Phase.MAIL | Phase.RCPT | Phase.DATA:
            return _before_content(cause, raw)
        case Phase.CONTENT:
            return Unknown(cause, raw) if event.begun else Deferred(cause, raw)
        case Phase.DOT:
            return Unknown(cause, raw)
        case Phase.PREPARE | Phase.LEASE:
            raise ValueError(f"no connection breaks in phase {event.phase}")


def _before_content(cause: Cause, raw: str) -> Outcome:
    """Two of these are the session's own findings: the relay as it is configured cannot take this message."""
    match cause.kind:
        case Kind.UNSUPPORTED:
            return Rejected(cause, raw)
        case Kind.TOO_LARGE:
            return Undeliverable(cause, raw)
        case _:
            return Deferred(cause, raw)


def _account(reply: Reply) -> Cause:
    enhanced = enhanced_code(reply.code, reply.text)
    return Cause(
        phase=reply.phase,
        kind=kind_of(reply.phase, reply.code, enhanced),
        code=reply.code if is_refusal(reply.code) else None,
        enhanced=enhanced if is_refusal(reply.code) else None,
        hint=hint(f"{reply.code} {reply.text}"),
    )


def _is_acceptance(code: int) -> bool:
    """Any 2yz: the relay has taken responsibility (RFC 5321 4.2.5)."""
    return 200 <= code <= 299
