"""Commands and replies of SMTP over a :class:`Wire`, with the phase named: one by one, or a group in one write.

What cannot go on leaves as :class:`Ended`, which carries the event that ended it. What an event means for a message is
not decided here.
"""

from __future__ import annotations

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break, Reply
from outbox_admin.delivery.deadline import Deadline
from outbox_admin.delivery.replies import Answer
from outbox_admin.delivery.wire import Wire, WireFault

_OF_A_MESSAGE = frozenset({Phase.MAIL, Phase.RCPT, Phase.DATA})


class Ended(Exception):
    """The walk ends here, with this event. Never leaves the session."""

    def __init__(self, event: Reply | Break) -> None:
        super().__init__(event.phase.value)
        self.event = event


class Exchange:
    """``reply_timeout`` in seconds for each reply; ``deadline`` for everything together."""

    def __init__(self, wire: Wire, *, reply_timeout: float, deadline: Deadline) -> None:
        self.wire = wire
        self.reply_timeout = reply_timeout
        self.deadline = deadline

    def ask(self, phase: Phase, line: bytes) -> Reply:
        """Sends a command line (without its end) and reads its reply, whatever it says."""
        limit = self.deadline.within(self.reply_timeout)
        try:
            self.wire.write(line + b"\r\n", limit)
        except WireFault as fault:
            return self._parting_words(phase, fault)
        return self.hear(phase, limit)

    def send(self, phase: Phase, lines: bytes) -> None:
        """Command lines with their ends, in one write; their replies are owed from now on, and heard one by one."""
        try:
            self.wire.write(lines, self.deadline.within(self.reply_timeout))
        except WireFault as fault:
            raise Ended(self._parting_words(phase, fault)) from None

    def hear(self, phase: Phase, limit: Deadline | None = None, *, begun: bool = False) -> Reply:
        """Reads one reply. ``begun`` goes into the account of a failure."""
        return reply_of(phase, self.listen(phase, limit, begun=begun))

    def listen(self, phase: Phase, limit: Deadline | None = None, *, begun: bool = False) -> Answer:
        """As :meth:`hear`, without the phase in what it returns. ``limit`` of None is that of any reply."""
        try:
            answer = self.wire.at_hand()
            if answer is None:
                answer = self.wire.read(limit or self.deadline.within(self.reply_timeout))
        except WireFault as fault:
            raise Ended(Break(phase, fault.kind, fault.raw, begun=begun)) from None
        return answer

    def _parting_words(self, phase: Phase, fault: WireFault) -> Reply:
        """A relay that closes often says why first (421): that names the reason, the broken write does not.

        It cannot have seen the command: from MAIL on, a final refusal here is none of this message.
        """
        answer = self.wire.arrived() if fault.kind is not Kind.PROTOCOL else None
        if answer is not None and (answer.code >= 500 and phase in _OF_A_MESSAGE):
            raise Ended(Break(phase, fault.kind, f"{answer.code} {answer.text}"))
        if answer is not None and answer.code >= 400:
            return reply_of(phase, answer)
        raise Ended(Break(phase, fault.kind, fault.raw))


def reply_of(phase: Phase, answer: Answer) -> Reply:
    return Reply(phase, answer.code, answer.text)


def expect(reply: Reply, *codes: int) -> Reply:
    """``reply`` when its code is one of ``codes``; a refusal, or a protocol fault, ends the walk."""
    if reply.code in codes:
        return reply
    if reply.code >= 400:
        raise Ended(reply)
    raise Ended(Break(reply.phase, Kind.PROTOCOL, f"{reply.code} {reply.text}"))
