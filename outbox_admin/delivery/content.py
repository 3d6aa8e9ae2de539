"""Writes the content of a message after the 354 and reads the relay's verdict.

The one place where a message can become uncertain: as soon as the last write begins, which carries the final dot, the
relay may hold all of it. Until then nothing can have been delivered.
"""

from __future__ import annotations

from itertools import pairwise

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break, Reply
from outbox_admin.delivery.envelope import Unsendable
from outbox_admin.delivery.exchange import Ended, Exchange, reply_of
from outbox_admin.delivery.wire import WireFault

_BLOCK = 65536


def check_content(content: bytes) -> None:
    """A lone CR or LF could end the message early at a tolerant relay (smuggling). Raises :class:`Unsendable`."""
    ends = content.count(b"\r\n")
    if content.count(b"\n") != ends or content.count(b"\r") != ends:
        raise Unsendable("the content has a line end that is not CRLF")


def stuffed(lines: bytes) -> bytes:
    """Lines that begin with a dot get a second one (RFC 5321 4.5.2). The same object where there are none."""
    if b"\r\n." in lines:
        lines = lines.replace(b"\r\n.", b"\r\n..")
    return b"." + lines if lines.startswith(b".") else lines


def hand_over(exchange: Exchange, content: bytes, *, final_timeout: float, ahead: bytes = b"") -> Reply:
    """The reply to the final dot, whatever its code. ``final_timeout`` in seconds. Raises :class:`Ended`.

    ``ahead``: the next message's command lines, which go out with the dot; their replies are not awaited here.

    A block must leave within the reply time limit, so a relay that stops reading is noticed. Large content is never
    copied as a whole.
    """
    if exchange.wire.has_unread:
        raise _ended(
            exchange, Break(Phase.CONTENT, Kind.PROTOCOL, "the relay sent more than one reply to DATA")
        )
    dotted = content.startswith(b".") or b"\r\n." in content
    octets, cuts = memoryview(content), _cuts(content)
    for start, end in pairwise(cuts):
        block = octets[start:end]
        _write(exchange, stuffed(bytes(block)) if dotted else block, begun=False)
    last = stuffed(bytes(octets[cuts[-1] :])) if dotted else octets[cuts[-1] :]
    ending = b".\r\n" if not content or content.endswith(b"\r\n") else b"\r\n.\r\n"
    if exchange.deadline.has_passed:
        raise Ended(Break(Phase.CONTENT, Kind.TIMEOUT, f"not written within {exchange.deadline.limit:g} s"))
    _write(exchange, b"".join((last, ending, ahead)), begun=True, spare=len(ahead))
    return exchange.hear(Phase.DOT, exchange.deadline.within(final_timeout), begun=True)


def _cuts(content: bytes) -> list[int]:
    """Where blocks begin: always at the beginning of a line, so that each can be stuffed by itself."""
    cuts = [0]
    while len(content) - cuts[-1] > _BLOCK:
        within = cuts[-1] + _BLOCK
        cut = content.rfind(b"\n", cuts[-1], within) + 1 or content.find(b"\n", within) + 1
        if cut in (0, len(content)):
            break
        cuts.append(cut)
    return cuts


def _write(exchange: Exchange, block: bytes | memoryview, *, begun: bool, spare: int = 0) -> None:
    """When nothing but some of the last ``spare`` octets could not be sent, the relay has the dot and may answer it."""
    try:
        exchange.wire.write(block, exchange.deadline.within(exchange.reply_timeout))
    except WireFault as fault:
        if 0 < fault.unsent <= spare:
            return
        raise _ended(exchange, Break(Phase.CONTENT, fault.kind, fault.raw, begun=begun)) from None


def _ended(exchange: Exchange, event: Break) -> Ended:
    """A relay that refuses in mid-content says so and closes: its words tell more than the broken write."""
    words = exchange.wire.arrived()
    if words is not None and words.code >= 400:
        return Ended(reply_of(Phase.DOT if event.begun else Phase.CONTENT, words))
    return Ended(event)
