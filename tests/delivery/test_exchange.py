"""One command, one reply, and what a relay says while it closes."""

from __future__ import annotations

import socket
import time

import pytest

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break, Reply, classify
from outbox_admin.core.lifecycle import Deferred
from outbox_admin.delivery.deadline import Deadline
from outbox_admin.delivery.exchange import Ended, Exchange
from outbox_admin.delivery.wire import Wire


def closed_after(words: bytes) -> Exchange:
    """The relay said `words` and closed before our command could reach it."""
    ours, relay = socket.socketpair()
    relay.sendall(words)
    relay.close()
    return Exchange(Wire(ours), reply_timeout=5.0, deadline=Deadline.after(5.0, time.monotonic))


@pytest.mark.parametrize("phase", [Phase.MAIL, Phase.RCPT, Phase.DATA])
def test_a_refusal_that_was_sent_before_the_command_rejects_no_message(phase: Phase) -> None:
    exchange = closed_after(b"554 5.7.1 too many connections\r\n")
    with pytest.raises(Ended) as ended:
        exchange.ask(phase, b"MAIL FROM:<a@shop.example>")
    exchange.wire.close()
    event = ended.value.event
    assert isinstance(event, Break)
    assert (event.phase, event.kind) == (phase, Kind.NETWORK)
    assert isinstance(classify(event, literal_5xx=True), Deferred)


@pytest.mark.parametrize(
    ("phase", "code"), [(Phase.MAIL, 421), (Phase.RCPT, 451), (Phase.EHLO, 554), (Phase.AUTH, 421)]
)
def test_what_a_relay_says_while_it_closes_names_the_reason(phase: Phase, code: int) -> None:
    exchange = closed_after(b"%d bye\r\n" % code)
    assert exchange.ask(phase, b"EHLO worker.example") == Reply(phase, code, "bye")
    exchange.wire.close()


def test_a_connection_that_ends_without_a_word_is_a_break() -> None:
    exchange = closed_after(b"")
    with pytest.raises(Ended) as ended:
        exchange.ask(Phase.MAIL, b"MAIL FROM:<a@shop.example>")
    exchange.wire.close()
    assert isinstance(ended.value.event, Break)
