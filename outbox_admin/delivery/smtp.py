"""The SMTP session of one lane: one connection, reused, that always knows its phase.

Network faults are values here (:class:`Reply`, :class:`Break`), never exceptions. What they mean for a message is
decided in core/classify, not here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break, Reply
from outbox_admin.delivery.content import check_content, hand_over
from outbox_admin.delivery.deadline import Deadline
from outbox_admin.delivery.dial import dial
from outbox_admin.delivery.envelope import Envelope
from outbox_admin.delivery.exchange import Ended, Exchange, expect
from outbox_admin.delivery.greet import Offer, greet, tls_context
from outbox_admin.delivery.routes import Route
from outbox_admin.delivery.stamina import Stamina
from outbox_admin.delivery.wire import Wire, WireFault
from outbox_admin.errors import ConfigurationError

QUIT_LIMIT = 2.0  #: seconds that a parting may take
Seconds = Callable[[], float]
OCTETS_PER_SECOND = 256 * 1024  #: by which the time limit of a hand-over grows with the message

_GO_ON = range(250, 260)
_ALIVE = (*_GO_ON, 500, 502)  # a relay that does not know NOOP is there all the same
_OURS = (Kind.UNSUPPORTED, Kind.TOO_LARGE)  # before anything was sent: the connection is as good as before


@dataclass(slots=True)
class _Link:
    """An open connection, ready for a message."""

    exchange: Exchange
    offer: Offer
    last_used: float
    uses: int = 0
    tried: bool = False  #: a message was begun, or refused
    unfinished: bool = False  #: a refused transaction lies open; RSET comes before the next

    @property
    def wire(self) -> Wire:
        return self.exchange.wire


class SmtpSession:
    """Talks to the relay of ``route``; for one thread (:meth:`abort` apart).

    ``may_begin`` is asked when the relay waits for the content; False ends it there, nothing of the content sent.
    Raises :class:`ConfigurationError` when made with a CA file that cannot be read; nothing is connected yet.
    """

    def __init__(
        self, route: Route, *, clock: Seconds = time.monotonic, may_begin: Callable[[], bool] = lambda: True
    ) -> None:
        self.route = route
        self._clock = clock
        self._may_begin = may_begin
        self._link: _Link | None = None
        self._wire: Wire | None = None
        self._stamina = Stamina()
        self._spent = 0.0
        try:
            self._context = tls_context(route)
        except OSError:
            raise ConfigurationError("SMTP CA file: it cannot be read, or holds no certificate.") from None

    @property
    def connected(self) -> bool:
        return self._link is not None

    @property
    def max_size(self) -> int | None:
        """Octets that the relay's SIZE allows; None where it names no limit or nothing is connected."""
        return self._link.offer.max_size if self._link else None

    @property
    def uses(self) -> int:
        """Messages begun on the present connection."""
        return self._link.uses if self._link else 0

    def open(self) -> Reply | Break | None:
        """Connects, greets, secures, logs in, unless that stands already. None when ready for a message.

        The time it takes belongs to the hand-over that follows.
        """
        if self._reusable() is not None:
            return None
        began = self._clock()
        try:
            self._connect(Deadline.after(self.route.handover_limit, self._clock))
        except Ended as end:
            return end.event
        self._spent = self._clock() - began
        return None

    def deliver(
        self, sender: str, recipient: str, content: bytes, *, smtputf8: bool = False
    ) -> Reply | Break:
        """One message to one recipient, over the open connection or a new one.

        Gives the reply to the final dot, or the first refusal or break; which phase it names, that far it came.
        ``content`` is 7-bit with CRLF line ends, not dot-stuffed. Raises Unsendable, before anything is sent, when an
        address or a line end could break the dialogue.
        """
        envelope = Envelope(sender, recipient, len(content), smtputf8)
        check_content(content)
        limit = self.route.handover_limit + len(content) / OCTETS_PER_SECOND - self._spent
        deadline, self._spent = Deadline.after(limit, self._clock), 0.0
        try:
            event: Reply | Break = self._walk(envelope, content, deadline)
        except Ended as end:
            event = end.event
        self._settle(event)
        return event

    def probe(self) -> Reply | Break | None:
        """A fresh connection with all that belongs to it, and NOOP; no message is risked. None when it went well."""
        self.close()
        refusal = self.open()
        if refusal is not None or self._link is None:
            return refusal
        try:
            expect(self._link.exchange.ask(Phase.EHLO, b"NOOP"), *_ALIVE)
        except Ended as end:
            self.close()
            return end.event
        return None

    def quit(self) -> None:
        """Takes leave and closes. Never raises, never waits longer than :data:`QUIT_LIMIT`."""
        if self._link is not None:
            self._take_leave(self._link, Deadline.after(QUIT_LIMIT, self._clock))

    def close(self) -> None:
        """Hard, without a word."""
        if self._wire is not None:
            self._wire.close()
        self._link = self._wire = None

    def abort(self) -> None:
        """From any thread: ends the connection, so that the call under way returns with what it then knows."""
        wire = self._wire
        if wire is not None:
            wire.abort()

    def _walk(self, envelope: Envelope, content: bytes, deadline: Deadline) -> Reply:
        link = self._begin(envelope, deadline)
        _, rcpt, data = envelope.commands(link.offer)
        expect(link.exchange.ask(Phase.RCPT, rcpt), *_GO_ON)
        expect(link.exchange.ask(Phase.DATA, data), 354)
        if not self._may_begin():
            raise Ended(Break(Phase.DATA, Kind.UNKNOWN, "withheld"))
        reply = hand_over(link.exchange, content, final_timeout=self.route.final_timeout)
        if not 200 <= reply.code < 300 and reply.code < 400:
            raise Ended(Break(Phase.DOT, Kind.PROTOCOL, f"{reply.code} {reply.text}", begun=True))
        return reply

    def _begin(self, envelope: Envelope, deadline: Deadline) -> _Link:
        """MAIL. On a connection used before, whose end may only show now, once more over a fresh one."""
        link = self._reusable()
        if link is None:
            return self._mail(self._connect(deadline), envelope, deadline)
        fresh = not link.tried and self._clock() - link.last_used < self.route.reply_timeout
        try:
            return self._mail(link, envelope, deadline)
        except Ended as end:
            if fresh or deadline.has_passed or not _is_stale(end.event):
                raise
        self._retire(link)
        return self._mail(self._connect(deadline), envelope, deadline)

    def _mail(self, link: _Link, envelope: Envelope, deadline: Deadline) -> _Link:
        obstacle = envelope.obstacle(link.offer)
        if obstacle is not None:
            raise Ended(Break(Phase.MAIL, *obstacle))
        link.exchange.deadline, link.tried = deadline, True
        if link.unfinished and link.exchange.ask(Phase.MAIL, b"RSET").code not in _GO_ON:
            raise Ended(Break(Phase.MAIL, Kind.PROTOCOL, "RSET was refused"))
        link.unfinished = True
        expect(link.exchange.ask(Phase.MAIL, envelope.commands(link.offer)[0]), *_GO_ON)
        link.uses += 1
        return link

    def _settle(self, event: Reply | Break) -> None:
        link = self._link
        if link is None:
            return
        link.last_used = self._clock()
        if isinstance(event, Reply):
            link.unfinished = event.code >= 400
            if link.wire.failed or event.phase is Phase.CONTENT or event.code in (421, 503):
                self.close()  # also in mid-content: the relay would read our next command as text
        elif event.kind not in _OURS:
            self.close()

    def _reusable(self) -> _Link | None:
        """The open connection where it is fit for another message; else it is given up."""
        link = self._link
        if link is None:
            return None
        if not link.wire.is_quiet():
            self._retire(link)
        elif self._stamina.is_spent(uses=link.uses, now=self._clock()):
            self._take_leave(link, None)
        return self._link

    def _retire(self, link: _Link) -> None:
        now = self._clock()
        if link.uses:
            self._stamina.note_end(uses=link.uses, idle=now - link.last_used, now=now)
        self.close()

    def _take_leave(self, link: _Link, wait: Deadline | None) -> None:
        """QUIT. Its reply is awaited only until ``wait``; with None not at all, since a message is waiting."""
        with suppress(WireFault):
            link.wire.write(b"QUIT\r\n", wait or Deadline.after(QUIT_LIMIT, self._clock))
            if wait is not None:
                link.wire.read(wait)
        self.close()

    def _connect(self, deadline: Deadline) -> _Link:
        route = self.route
        try:
            self._wire = dial(route.host, route.port, deadline.within(route.reply_timeout))
        except WireFault as fault:
            raise Ended(Break(Phase.CONNECT, fault.kind, fault.raw)) from None
        exchange = Exchange(self._wire, reply_timeout=route.reply_timeout, deadline=deadline)
        try:
            offer = greet(exchange, route, self._context)
        except Ended:
            self.close()
            raise
        self._link = _Link(exchange, offer, self._clock())
        return self._link


def _is_stale(event: Reply | Break) -> bool:
    """Whether the first command failed for the connection's sake; asked only of connections used before."""
    if isinstance(event, Reply):
        return event.code == 421
    return event.kind not in _OURS
