"""One message on an open connection, from RSET or MAIL to the relay's 354, one command after the other or in a group.

A group (RFC 2920) is RSET where a refused transaction lies open, MAIL, RCPT and DATA in one write. It may go ahead,
together with the end of the message before: then only its replies are left to be read. A reply that cannot belong to
its command means that the two sides are out of step, and judges no message.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break, Reply
from outbox_admin.core.replycode import BAD_SEQUENCE, CLOSING
from outbox_admin.delivery.compose import Composed
from outbox_admin.delivery.deadline import Deadline
from outbox_admin.delivery.envelope import Envelope, Unsendable
from outbox_admin.delivery.exchange import Ended, Exchange, expect, reply_of
from outbox_admin.delivery.greet import Offer
from outbox_admin.delivery.wire import Wire, WireFault

_GO_ON = range(250, 260)
_GROUP = ((Phase.MAIL, _GO_ON), (Phase.RCPT, _GO_ON), (Phase.DATA, range(354, 355)))
#: Found before anything was sent: the connection is as good as before.
OURS = (Kind.UNSUPPORTED, Kind.TOO_LARGE)


@dataclass(slots=True)
class Link:
    """An open connection, ready for a message."""

    exchange: Exchange
    offer: Offer
    last_used: float
    grouped: bool = False  #: the commands of one envelope go out in one write
    uses: int = 0
    tried: bool = False  #: a message was begun, or refused
    unfinished: bool = False  #: a refused transaction lies open; RSET comes before the next
    ahead: Composed | None = None  #: its envelope went out already; nobody has read the replies

    @property
    def wire(self) -> Wire:
        return self.exchange.wire


def envelope_of(message: Composed) -> Envelope:
    """Raises :class:`Unsendable`."""
    return Envelope(message.sender, message.recipient, len(message.content), message.smtputf8)


def ahead_of(link: Link, message: Composed | None) -> bytes:
    """The command lines of the message that may come next; none where it had better be looked at in its own time."""
    if message is None or not link.grouped:
        return b""
    try:
        envelope = envelope_of(message)
    except Unsendable:
        return b""
    return b"" if envelope.obstacle(link.offer) else _lines(link, envelope)


def introduce(link: Link, envelope: Envelope) -> None:
    """Up to the 354. Raises :class:`Ended` with the first refusal, or with what broke."""
    obstacle = envelope.obstacle(link.offer)
    if obstacle is not None:
        raise Ended(Break(Phase.MAIL, *obstacle))
    link.tried = True
    if link.grouped:
        _together(link, envelope)
    else:
        _one_by_one(link, envelope)


def take_leave(link: Link, deadline: Deadline, *, wait: bool) -> None:
    """QUIT, and its reply where we ``wait``. Not a word behind an envelope that went ahead: it would be content."""
    if link.ahead is not None:
        return
    with suppress(WireFault):
        link.wire.write(b"QUIT\r\n", deadline)
        if wait:
            link.wire.read(deadline)


def _one_by_one(link: Link, envelope: Envelope) -> None:
    exchange = link.exchange
    mail, rcpt, data = envelope.commands(link.offer)
    if link.unfinished:
        _check_reset(exchange.ask(Phase.MAIL, b"RSET"))
    link.unfinished = True
    expect(exchange.ask(Phase.MAIL, mail), *_GO_ON)
    link.uses += 1
    expect(exchange.ask(Phase.RCPT, rcpt), *_GO_ON)
    expect(exchange.ask(Phase.DATA, data), 354)


def _together(link: Link, envelope: Envelope) -> None:
    exchange = link.exchange
    if link.ahead is None and link.unfinished:
        exchange.send(Phase.MAIL, b"RSET\r\n" + _lines(link, envelope))
        _check_reset(exchange.hear(Phase.MAIL))
    elif link.ahead is None:
        exchange.send(Phase.MAIL, _lines(link, envelope))
    link.ahead, link.unfinished = None, True
    refusal = _first_refusal(link)
    if refusal is not None:
        _confirm(link, refusal)
        raise Ended(refusal)
    if link.wire.has_unread:
        raise _out_of_step(Phase.DATA, "the relay sent more than one reply to a command")


def _first_refusal(link: Link) -> Reply | None:
    """Reads the replies to a group. After a refusal the others tell nothing, but must be read, and fit to it."""
    refusal: Reply | None = None
    for phase, wanted in _GROUP:
        try:
            answer = link.exchange.listen(phase)
        except Ended:
            if refusal is None:
                raise
            return refusal  # the link is marked as failed
        fits = answer.code in wanted and (refusal is None or phase is Phase.DATA)
        if not fits and answer.code < 400:
            raise _out_of_step(phase, f"{answer.code} {answer.text}")
        if answer.code == CLOSING:
            return refusal or reply_of(phase, answer)
        if fits and phase is Phase.MAIL:
            link.uses += 1
        if fits and refusal is not None:
            _send_nothing(link.exchange)
        if not fits and refusal is None:
            refusal = reply_of(phase, answer)
    return refusal


def _confirm(link: Link, refusal: Reply) -> None:
    """RSET, which must come anyway: had the replies shifted by one, its own reply would show it.

    So a refusal that answers another command is not taken for this message's. Where the relay leaves, it stands.
    """
    if refusal.code == CLOSING or link.wire.failed:
        return
    try:
        code = link.exchange.ask(refusal.phase, b"RSET").code
    except Ended as end:
        if isinstance(end.event, Break) and end.event.kind is Kind.PROTOCOL:
            raise
        return
    link.unfinished = code not in _GO_ON
    if code == CLOSING:
        link.wire.failed = True
    elif link.unfinished:
        raise _out_of_step(refusal.phase, f"RSET after a refusal was answered with {code}")


def _send_nothing(exchange: Exchange) -> None:
    """The relay waits for content that is for nobody, every RCPT being refused (RFC 2920 3.1): the empty one.

    Whatever it answers is no acceptance of anything. A relay that does not answer leaves its wire marked as failed.
    """
    try:
        exchange.send(Phase.DATA, b".\r\n")
        exchange.listen(Phase.DATA)
    except Ended:
        exchange.wire.failed = True


def _out_of_step(phase: Phase, raw: str) -> Ended:
    return Ended(Break(phase, Kind.PROTOCOL, raw))


def is_out_of_step(event: Reply | Break) -> bool:
    """Whether a group of commands, none of them followed by content, met with something other than an answer."""
    return event.code == BAD_SEQUENCE if isinstance(event, Reply) else event.kind not in OURS


def is_stale(link: Link, event: Reply | Break) -> bool:
    """Whether the first command failed for the connection's sake; asked only of connections used before.

    Silence, or a reply that is none, tells of an end in lock step; to a group it may be how the relay takes groups.
    """
    if event.phase is not Phase.MAIL:
        return False
    if isinstance(event, Reply):
        return event.code == CLOSING
    return event.kind is Kind.NETWORK if link.grouped else event.kind not in OURS


def _check_reset(reply: Reply) -> None:
    if reply.code not in _GO_ON:
        raise _out_of_step(Phase.MAIL, "RSET was refused")


def _lines(link: Link, envelope: Envelope) -> bytes:
    return b"%b\r\n%b\r\n%b\r\n" % envelope.commands(link.offer)
