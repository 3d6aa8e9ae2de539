"""The SMTP session of one lane: one connection, reused, that always knows its phase.

Network faults are values here (:class:`Reply`, :class:`Break`), never exceptions. What they mean for a message is
decided in core/classify, not here.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break, Reply
from outbox_admin.delivery.compose import Composed
from outbox_admin.delivery.content import check_content, hand_over
from outbox_admin.delivery.deadline import Deadline
from outbox_admin.delivery.dial import dial
from outbox_admin.delivery.envelope import Envelope
from outbox_admin.delivery.exchange import Ended, Exchange, expect
from outbox_admin.delivery.greet import greet, tls_context
from outbox_admin.delivery.grouping import Grouping
from outbox_admin.delivery.routes import Route
from outbox_admin.delivery.stamina import Stamina
from outbox_admin.delivery.transaction import (
    OURS,
    Link,
    ahead_of,
    envelope_of,
    introduce,
    is_out_of_step,
    is_stale,
    take_leave,
)
from outbox_admin.delivery.wire import Wire, WireFault
from outbox_admin.errors import ConfigurationError

QUIT_LIMIT = 2.0  #: seconds that a parting may take
Seconds = Callable[[], float]
OCTETS_PER_SECOND = 256 * 1024  #: by which the time limit of a hand-over grows with the message

_ALIVE = (*range(250, 260), 500, 502)  # a relay that does not know NOOP is there all the same


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
        self._link: Link | None = None
        self._wire: Wire | None = None
        self._stamina = Stamina()
        self._grouping = Grouping(route.name)
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
        if self._link is not None and (self._link.ahead is not None or self._reusable() is not None):
            return None
        began = self._clock()
        try:
            self._connect(Deadline.after(self.route.handover_limit, self._clock))
        except Ended as end:
            return end.event
        self._spent = self._clock() - began
        return None

    def deliver(self, message: Composed, *, then: Composed | None = None) -> Reply | Break:
        """One message to its recipient, over the open connection or a new one.

        Gives the reply to the final dot, or the first refusal or break; which phase it names, that far it came.
        ``then`` will probably be delivered next: where the relay can pipeline, its envelope goes out with the end of
        this message. If it is not what comes next, the connection is closed: no content may follow that envelope.
        Raises Unsendable, before anything of this message is sent, when an address or a line end could break the
        dialogue.
        """
        envelope = envelope_of(message)
        check_content(message.content)
        limit = self.route.handover_limit + len(message.content) / OCTETS_PER_SECOND - self._spent
        deadline, self._spent = Deadline.after(limit, self._clock), 0.0
        try:
            link = self._reach_content(message, envelope, deadline)
            event: Reply | Break = self._send_content(link, message.content, then)
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
            self._leave(self._link, wait=True)

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

    def _reach_content(self, message: Composed, envelope: Envelope, deadline: Deadline) -> Link:
        """The link whose relay now waits for the content.

        What was the fault of a connection used before, whose end may only show now, or of commands sent in a group
        costs the message nothing: it is introduced again over a fresh one, in the end in lock step.
        """
        link = self._fit_for(message) or self._connect(deadline)
        while True:
            aged = link.tried or self._clock() - link.last_used >= self.route.reply_timeout
            link.exchange.deadline = deadline
            try:
                introduce(link, envelope)
                return link
            except Ended as end:
                if link.wire.aborted or deadline.has_passed or not self._excuses(link, end.event, aged=aged):
                    raise
            link = self._connect(deadline)

    def _send_content(self, link: Link, content: bytes, then: Composed | None) -> Reply:
        if not self._may_begin():
            raise Ended(Break(Phase.DATA, Kind.UNKNOWN, "withheld"))
        lines = ahead_of(link, None if self._is_spent(link) else then)
        reply = hand_over(link.exchange, content, final_timeout=self.route.final_timeout, ahead=lines)
        if not 200 <= reply.code < 300 and reply.code < 400:
            raise Ended(Break(Phase.DOT, Kind.PROTOCOL, f"{reply.code} {reply.text}", begun=True))
        link.ahead = then if lines else None
        return reply

    def _excuses(self, link: Link, event: Reply | Break, *, aged: bool) -> bool:
        """Whether it was not the message that failed. If so, the link is given up."""
        if aged and is_stale(link, event):
            self._retire(link)
        elif link.grouped and is_out_of_step(event):
            self._grouping.note_fault(event.phase, now=self._clock())
            self.close()
        else:
            return False
        return True

    def _settle(self, event: Reply | Break) -> None:
        link = self._link
        if link is None:
            return
        link.last_used = self._clock()
        if isinstance(event, Reply):
            link.unfinished = event.code >= 400 if event.phase is Phase.DOT else link.unfinished
            if link.wire.failed or event.phase is Phase.CONTENT or event.code in (421, 503):
                self.close()  # also in mid-content: the relay would read our next command as text
        elif event.kind not in OURS:
            self.close()

    def _fit_for(self, message: Composed) -> Link | None:
        """The open connection, unless another message's envelope went ahead on it."""
        link = self._link
        if link is None or link.ahead is None:
            return self._reusable()
        if link.ahead != message:
            self.close()
        return self._link

    def _is_spent(self, link: Link) -> bool:
        return self._stamina.is_spent(uses=link.uses, now=self._clock())

    def _reusable(self) -> Link | None:
        """The open connection where it is fit for another message; else it is given up."""
        link = self._link
        if link is None:
            return None
        if not link.wire.is_quiet():
            self._retire(link)
        elif self._is_spent(link):
            self._leave(link, wait=False)  # a message is waiting
        return self._link

    def _retire(self, link: Link) -> None:
        now = self._clock()
        if link.uses:
            self._stamina.note_end(uses=link.uses, idle=now - link.last_used, now=now)
        self.close()

    def _leave(self, link: Link, *, wait: bool) -> None:
        take_leave(link, Deadline.after(QUIT_LIMIT, self._clock), wait=wait)
        self.close()

    def _connect(self, deadline: Deadline) -> Link:
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
        now = self._clock()
        self._link = Link(exchange, offer, now, grouped=self._grouping.suits(offer, now=now))
        return self._link
