"""RFC 2920 at the session: the next envelope goes out with the end of this message, and no reply colours a neighbour.

Three messages in a row, each told which comes next; what goes wrong goes wrong with one of them.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
import tracemalloc
from collections.abc import Sequence

import pytest

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break, Reply
from outbox_admin.core.lifecycle import Accepted, ChannelFault, Deferred, Outcome, Rejected, Unknown
from outbox_admin.delivery.compose import Composed
from outbox_admin.delivery.content import hand_over
from outbox_admin.delivery.deadline import Deadline
from outbox_admin.delivery.exchange import Exchange
from outbox_admin.delivery.grouping import LOCK_STEP
from outbox_admin.delivery.routes import Route, Tls
from outbox_admin.delivery.smtp import SmtpSession
from outbox_admin.delivery.wire import Wire
from tests.support.clock import FakeClock
from tests.support.relay import (
    Action,
    Relay,
    Script,
    close,
    forget,
    raw,
    reset,
    silence,
    slowly,
    then,
    until,
)
from tests.support.sessions import CONTENT, QUICK, message, outcome_of, session_to

OFFER = ("PIPELINING", "SIZE 1000000")
ANNA, BERT, CARL = MESSAGES = [message(to=f"{name}@example.com") for name in ("anna", "bert", "carl")]
OK = "250 ok"
Step = str | Action


def at(number: int, step: str, action: Step) -> Script:
    """The action at this step of the message of this number; the ordinary reply before and after."""
    return {step: [*["354 go" if step == "DATA" else OK] * number, action]}


def in_a_row(session: SmtpSession, messages: Sequence[Composed] = MESSAGES) -> list[Reply | Break]:
    following = [*messages[1:], None]
    return [session.deliver(one, then=other) for one, other in zip(messages, following, strict=True)]


def outcomes(events: Sequence[Reply | Break]) -> list[type[Outcome]]:
    return [outcome_of(event) for event in events]


def taken(relay: Relay) -> list[str]:
    """Who got mail. Nobody may ever get another's content, or none."""
    assert all(one.content == (CONTENT if one.recipients else b"") for one in relay.messages)
    return [recipient for one in relay.messages for recipient in one.recipients]


def everybody_but(number: int | None = None) -> list[str]:
    return [one.recipient for place, one in enumerate(MESSAGES) if place != number]


def envelope(one: Composed) -> bytes:
    mail = f"MAIL FROM:<{one.sender}> SIZE={len(one.content)}\r\n"
    return f"{mail}RCPT TO:<{one.recipient}>\r\nDATA\r\n".encode()


# --- what is written when


def test_the_next_envelope_goes_out_with_the_end_of_a_message() -> None:
    with Relay(offer=OFFER) as relay, session_to(relay) as session:
        assert outcomes(in_a_row(session)) == [Accepted] * 3
        assert session.uses == 3
        session.quit()
    assert relay.connections[0].pieces[1:] == [
        envelope(ANNA),
        CONTENT + b".\r\n" + envelope(BERT),
        CONTENT + b".\r\n" + envelope(CARL),
        CONTENT + b".\r\n",
        b"QUIT\r\n",
    ]


def test_without_the_extension_every_command_waits_for_its_reply() -> None:
    with Relay() as relay, session_to(relay) as session:
        assert outcomes(in_a_row(session)) == [Accepted] * 3
    assert [piece.count(b"\r\n") for piece in relay.connections[0].pieces[1:4]] == [1, 1, 1]
    assert all(piece.endswith(b"\r\n.\r\n") for piece in relay.connections[0].pieces[4::4])


def test_the_verdict_is_returned_before_the_next_envelope_is_answered() -> None:
    asked = threading.Event()
    script = at(1, "MAIL", then(until(asked), OK))
    with Relay(script, offer=OFFER) as relay, session_to(relay) as session:
        assert outcome_of(session.deliver(ANNA, then=BERT)) is Accepted
        asked.set()
        assert outcome_of(session.deliver(BERT)) is Accepted
    assert len(relay.connections) == 1


@pytest.mark.parametrize("gathers", [True, False])
@pytest.mark.parametrize("step", ["MAIL", "RCPT", "DATA", "DOT"])
def test_it_does_not_matter_in_which_packets_the_replies_come(step: str, gathers: bool) -> None:
    octets = b"354-go\r\n354 on\r\n" if step == "DATA" else b"250-o\r\n250 k\r\n"
    script: Script = {step: [slowly(octets)] * 3}
    with Relay(script, offer=OFFER, gathers=gathers) as relay, session_to(relay) as session:
        assert outcomes(in_a_row(session)) == [Accepted] * 3
    assert taken(relay) == everybody_but()
    assert len(relay.connections) == 1


@pytest.mark.parametrize(
    "following",
    [
        Composed(CONTENT, "a@shop.example", "jörg@example.com", smtputf8=True),
        message(b"x" * 1_000_001),
        message(to="jane@example.com\r\nRCPT TO:<eve@example.com>"),
    ],
)
def test_what_this_relay_cannot_take_does_not_go_ahead(following: Composed) -> None:
    with Relay(offer=OFFER) as relay, session_to(relay) as session:
        assert outcome_of(session.deliver(ANNA, then=following)) is Accepted
        assert outcome_of(session.deliver(BERT)) is Accepted
    assert relay.verbs == ["EHLO", *["MAIL", "RCPT", "DATA"] * 2]


def test_nothing_is_pipelined_across_starttls(authority) -> None:  # type: ignore[no-untyped-def]
    options = {"host": "localhost", "tls": Tls.STARTTLS, "ca_file": str(authority.ca_file)}
    with Relay(offer=OFFER, tls=authority.good.context()) as relay, session_to(relay, **options) as session:
        assert outcomes(in_a_row(session)) == [Accepted] * 3
    hello, starttls, again, first, *_ = relay.connections[0].pieces
    assert [hello[:4], starttls, again[:4]] == [b"EHLO", b"STARTTLS\r\n", b"EHLO"]
    assert first == envelope(ANNA)


# --- a refusal is one message's


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("gathers", [True, False])
@pytest.mark.parametrize(
    ("step", "reply", "outcome"),
    [
        ("MAIL", "451 later", Deferred),
        ("MAIL", "550 no", Rejected),
        ("RCPT", "450 later", Deferred),
        ("RCPT", "550 no", Rejected),
        ("DATA", "451 later", Deferred),
        ("DATA", "554 no", Rejected),
        ("DOT", "452 later", Deferred),
        ("DOT", "554 no", Rejected),
    ],
)
def test_a_refusal_never_colours_a_neighbour(
    step: str, reply: str, outcome: type[Outcome], number: int, gathers: bool
) -> None:
    with (
        Relay(at(number, step, reply), offer=OFFER, gathers=gathers) as relay,
        session_to(relay) as session,
    ):
        events = in_a_row(session)
    assert events[number] == Reply(Phase(step.lower()), int(reply[:3]), reply[4:])
    assert outcomes(events) == [outcome if place == number else Accepted for place in range(3)]
    assert taken(relay) == everybody_but(number)
    assert len(relay.connections) == 1


def test_a_354_after_a_refused_recipient_gets_the_empty_message_and_that_is_no_acceptance() -> None:
    with Relay(at(1, "RCPT", "550 no"), offer=OFFER) as relay, session_to(relay) as session:
        assert outcomes(in_a_row(session)) == [Accepted, Rejected, Accepted]
    assert [one.recipients for one in relay.messages] == [[ANNA.recipient], [], [CARL.recipient]]
    assert [piece for piece in relay.connections[0].pieces if piece == b".\r\n"] == [b".\r\n"]


@pytest.mark.parametrize("answer", ["554 no valid recipients", "421 bye", close(), reset(), raw(b"what\r\n")])
def test_whatever_the_empty_message_is_answered_the_next_one_is_sent(answer: Step) -> None:
    script = {**at(1, "RCPT", "550 no"), **at(1, "DOT", answer)}
    with Relay(script, {}, offer=OFFER) as relay, session_to(relay) as session:
        assert outcomes(in_a_row(session)) == [Accepted, Rejected, Accepted]
    assert taken(relay) == everybody_but(1)


@pytest.mark.parametrize(
    "script",
    [
        {**at(1, "MAIL", "550 no"), **at(1, "RCPT", OK), **at(1, "DATA", "354 go")},
        at(1, "RCPT", "421 bye"),
    ],
)
def test_the_empty_message_is_for_refused_recipients_alone(script: Script) -> None:
    """It would be delivered to a recipient who was accepted; and whoever says 421 is told nothing more."""
    with Relay(script, {}, offer=OFFER) as relay, session_to(relay) as session:
        in_a_row(session)
        assert relay.connections[0].ended.wait(60)
    assert relay.connections[0].octets.endswith(envelope(BERT))


def test_an_open_transaction_is_reset_in_the_same_write_as_the_next_envelope() -> None:
    with Relay(at(0, "DOT", "451 no"), offer=OFFER) as relay, session_to(relay) as session:
        assert outcome_of(session.deliver(ANNA)) is Deferred
        assert outcome_of(session.deliver(BERT)) is Accepted
    assert b"RSET\r\n" + envelope(BERT) in relay.connections[0].pieces


RESETS = ["451 later", "421 bye", close(), reset(), raw(b"what\r\n")]


@pytest.mark.parametrize("rset", RESETS)
def test_a_reset_that_fails_in_a_group_costs_only_the_connection(rset: Step) -> None:
    script = {**at(0, "DOT", "451 no"), "RSET": [rset]}
    with Relay(script, {}, offer=OFFER) as relay, session_to(relay) as session:
        assert outcome_of(session.deliver(ANNA)) is Deferred
        assert outcome_of(session.deliver(BERT)) is Accepted
    assert taken(relay) == [BERT.recipient]
    assert len(relay.connections) == 2


@pytest.mark.parametrize("rset", RESETS)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_refusal_stands_when_the_relay_leaves_and_is_heard_again_when_it_is_out_of_step(
    rset: Step, number: int
) -> None:
    refusing: Script = {**at(number, "RCPT", "550 no"), "RSET": [rset]}
    again: Script = at(0, "RCPT", "550 no") if rset in (RESETS[0], RESETS[4]) else {}
    with Relay(refusing, again, offer=OFFER) as relay, session_to(relay) as session:
        events = in_a_row(session)
    assert outcomes(events) == [Rejected if place == number else Accepted for place in range(3)]
    assert taken(relay) == everybody_but(number)


def test_a_relay_that_says_the_refused_message_still_lies_open_costs_the_next_one_nothing() -> None:
    script = {**at(0, "DOT", "451 later"), **at(1, "MAIL", "503 nested MAIL")}
    with Relay(script, {}, offer=OFFER) as relay, session_to(relay) as session:
        assert outcomes(in_a_row(session)) == [Deferred, Accepted, Accepted]
    assert taken(relay) == everybody_but(0)


# --- a connection that ends, a relay that is out of step


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("step", ["MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize("action", [close(), reset(), raw(b"what\r\n"), raw(b"220 what\r\n"), "503 order"])
def test_a_break_before_the_content_costs_no_message(step: str, action: Step, number: int) -> None:
    with Relay(at(number, step, action), {}, offer=OFFER) as relay, session_to(relay) as session:
        assert outcomes(in_a_row(session)) == [Accepted] * 3
    assert taken(relay) == everybody_but()
    assert len(relay.connections) == 2


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("action", [close(), reset(), raw(b"what\r\n"), "354 what"])
def test_a_break_at_the_dot_leaves_one_message_in_doubt_and_sends_the_next_once(
    action: Step, number: int
) -> None:
    with Relay(at(number, "DOT", action), {}, offer=OFFER) as relay, session_to(relay) as session:
        events = in_a_row(session)
    assert outcomes(events) == [Unknown if place == number else Accepted for place in range(3)]
    assert taken(relay) == everybody_but(number)
    contents = [one.recipients for one in relay.transactions if one.content is not None]
    assert contents == [[one.recipient] for one in MESSAGES]


@pytest.mark.parametrize("end", [close(), reset()])
def test_a_verdict_counts_also_when_the_connection_ends_with_it(end: Action) -> None:
    with Relay(at(0, "DOT", then(OK, end)), {}, offer=OFFER) as relay, session_to(relay) as session:
        assert outcomes(in_a_row(session)) == [Accepted] * 3
    assert taken(relay) == everybody_but()


@pytest.mark.parametrize("step", ["MAIL", "DOT"])
def test_silence_costs_the_limit_of_one_reply(step: str) -> None:
    script = at(1, step, silence())
    limits = {"reply_timeout": QUICK, "final_timeout": QUICK}
    with Relay(script, {}, offer=OFFER) as relay, session_to(relay, **limits) as session:
        events = in_a_row(session)
    expected = Accepted if step == "MAIL" else Unknown
    assert outcomes(events) == [Accepted, expected, Accepted]
    assert taken(relay) == everybody_but(None if step == "MAIL" else 1)


def test_a_relay_that_drops_what_was_sent_ahead_is_spoken_to_in_lock_step() -> None:
    dropping: Script = {"DOT": [then(forget(), OK)] * 3}
    with Relay(dropping, offer=OFFER) as relay, session_to(relay, reply_timeout=QUICK) as session:
        assert outcomes(in_a_row(session)) == [Accepted] * 3
    assert taken(relay) == everybody_but()
    assert len(relay.connections) == 2


@pytest.mark.parametrize("gathers", [True, False])
@pytest.mark.parametrize("extra", ["250 again", "550 again"])
@pytest.mark.parametrize("step", ["MAIL", "RCPT", "DATA", "DOT"])
def test_one_reply_too_many_is_nobodys_verdict(step: str, extra: str, gathers: bool) -> None:
    first = "354 go" if step == "DATA" else OK
    script = at(0 if step == "DOT" else 1, step, raw(f"{first}\r\n{extra}\r\n".encode()))
    with Relay(script, {}, offer=OFFER, gathers=gathers) as relay, session_to(relay) as session:
        assert outcomes(in_a_row(session)) == [Accepted] * 3
    assert taken(relay) == everybody_but()


def test_a_refusal_that_answers_an_earlier_command_does_not_reject_the_next_message() -> None:
    """The relay refuses the dot twice over; the next sender it would only defer."""
    shifted: Script = {**at(0, "DOT", raw(b"250 ok\r\n550 again\r\n")), **at(1, "MAIL", "451 later")}
    later: Script = at(0, "MAIL", "451 later")
    with Relay(shifted, later, offer=OFFER) as relay, session_to(relay) as session:
        assert outcomes(in_a_row(session)) == [Accepted, Deferred, Accepted]
    assert taken(relay) == everybody_but(1)


def test_an_unreliable_relay_is_spared_for_ten_minutes(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    scripts: list[Script] = [at(0, "RCPT", close()), {}]
    caplog.set_level(logging.WARNING)
    with Relay(*scripts, offer=OFFER) as relay, session_to(relay, clock=clock.monotonic) as session:
        for one, seconds in zip(MESSAGES, [0, LOCK_STEP - 1, 1], strict=True):
            clock.advance(seconds=seconds)
            assert outcome_of(session.deliver(one)) is Accepted
            session.close()
    pieces = [connection.pieces[1] for connection in relay.connections]
    mail = envelope(ANNA).split(b"RCPT")[0]
    assert pieces == [envelope(ANNA), mail, mail, envelope(CARL)]
    assert [record.getMessage() for record in caplog.records] == [
        "relay test is unreliable at pipelining (rcpt): one command at a time for 10 minutes"
    ]


def test_the_repetition_in_lock_step_happens_once() -> None:
    with Relay({"RCPT": close()}, offer=OFFER) as relay, session_to(relay) as session:
        event = session.deliver(ANNA)
    assert (event.phase, outcome_of(event)) == (Phase.RCPT, Deferred)
    assert len(relay.connections) == 2


def test_a_fresh_connection_that_says_421_is_believed() -> None:
    with Relay({"MAIL": then("421 bye", close())}, offer=OFFER) as relay, session_to(relay) as session:
        assert outcome_of(session.deliver(ANNA)) is ChannelFault
    assert len(relay.connections) == 1


@pytest.mark.parametrize("end", [then("421 4.7.0 enough", close()), close(), reset()])
def test_oc_40_the_number_of_messages_is_learned_from_envelopes_sent_ahead(
    end: Action, caplog: pytest.LogCaptureFixture
) -> None:
    """And none goes ahead where the connection had better be left."""
    with Relay(at(3, "MAIL", end), offer=OFFER) as relay, session_to(relay) as session:
        assert outcomes(in_a_row(session, MESSAGES * 4)) == [Accepted] * 12
    assert taken(relay) == everybody_but() * 4
    assert [connection.verbs().count("DATA") for connection in relay.connections][2:] == [3, 3]
    assert relay.connections[2].verbs()[-1] == "QUIT"
    assert caplog.records == []


@pytest.mark.parametrize("number", [0, 1])
def test_a_session_that_is_aborted_does_not_begin_again(number: int) -> None:
    asked = threading.Event()

    async def say_so(talk: object) -> None:
        asked.set()

    script = at(number, "RCPT", then(say_so, silence()))
    with Relay(script, offer=OFFER) as relay, session_to(relay) as session:

        def cut() -> None:
            assert asked.wait(60)
            session.abort()

        cutter = threading.Thread(target=cut)
        cutter.start()
        events = in_a_row(session, MESSAGES[: number + 1])
        cutter.join()
    assert outcomes(events) == [*[Accepted] * number, Deferred]
    assert len(relay.connections) == 1


# --- an envelope that must not be followed


def test_e25_an_envelope_that_is_not_followed_is_ended_by_closing() -> None:
    with Relay(offer=OFFER) as relay, session_to(relay) as session:
        assert outcome_of(session.deliver(ANNA, then=BERT)) is Accepted
        assert session.open() is None
        assert outcome_of(session.deliver(CARL, then=BERT)) is Accepted
        assert outcome_of(session.deliver(BERT)) is Accepted
    assert taken(relay) == [ANNA.recipient, CARL.recipient, BERT.recipient]
    assert len(relay.connections) == 2
    assert relay.connections[0].octets.endswith(envelope(BERT))


@pytest.mark.parametrize("leave", [SmtpSession.quit, SmtpSession.probe, SmtpSession.close])
def test_e25_nothing_that_could_be_read_as_content_follows_an_envelope(leave) -> None:  # type: ignore[no-untyped-def]
    listening = at(1, "MAIL", silence())
    with Relay(listening, {}, offer=OFFER) as relay, session_to(relay) as session:
        assert outcome_of(session.deliver(ANNA, then=BERT)) is Accepted
        assert leave(session) is None
        assert relay.connections[0].ended.wait(60)
    assert relay.connections[0].octets.endswith(envelope(BERT))
    assert taken(relay) == [ANNA.recipient]


def test_a_connection_with_an_envelope_ahead_is_open_for_its_message() -> None:
    """Though replies lie there that nobody has read."""
    with Relay(offer=OFFER, gathers=True) as relay, session_to(relay) as session:
        assert outcome_of(session.deliver(ANNA, then=BERT)) is Accepted
        assert session.open() is None
        assert outcome_of(session.deliver(BERT)) is Accepted
    assert len(relay.connections) == 1


def test_the_content_of_an_envelope_sent_ahead_is_withheld_without_leave() -> None:
    leave = iter([True, False, True])
    with Relay(offer=OFFER) as relay:
        route = Route("test", "127.0.0.1", relay.port, tls=Tls.NONE)
        session = SmtpSession(route, may_begin=lambda: next(leave))
        events = in_a_row(session)
        session.close()
    assert events[1] == Break(Phase.DATA, Kind.UNKNOWN, "withheld")
    assert taken(relay) == everybody_but(1)


# --- the write itself


def test_a_write_that_breaks_behind_the_dot_still_gets_the_verdict() -> None:
    """The relay had the whole message and said so; what it did not read is the envelope of the next."""
    ours, relay = socket.socketpair()

    def take_one() -> None:
        octets = b""
        while b"\r\n.\r\n" not in octets:
            octets += relay.recv(100)
        relay.sendall(b"250 taken\r\n")
        relay.close()

    talker = threading.Thread(target=take_one)
    talker.start()
    exchange = Exchange(Wire(ours), reply_timeout=60, deadline=Deadline.after(60, time.monotonic))
    reply = hand_over(exchange, CONTENT, final_timeout=60, ahead=b"NOOP\r\n" * 1_000_000)
    talker.join()
    exchange.wire.close()
    assert reply == Reply(Phase.DOT, 250, "taken")
    assert exchange.wire.failed


@pytest.mark.parametrize("letter", [b"x", b"."])
def test_a_large_message_is_never_copied_as_a_whole(letter: bytes) -> None:
    """10 MiB to a relay that keeps nothing, the next envelope behind them."""
    large = (letter * 70 + b"\r\n") * 145_000
    ours, relay = socket.socketpair()

    def take() -> None:
        last = b""
        while not last.endswith(b"\r\n.\r\nNOOP\r\n"):
            last = (last + relay.recv(65536))[-20:]
        relay.sendall(b"250 taken\r\n")

    talker = threading.Thread(target=take)
    talker.start()
    exchange = Exchange(Wire(ours), reply_timeout=60, deadline=Deadline.after(60, time.monotonic))
    tracemalloc.start()
    try:
        reply = hand_over(exchange, large, final_timeout=60, ahead=b"NOOP\r\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    talker.join()
    exchange.wire.close()
    relay.close()
    assert reply.code == 250
    assert peak < len(large) / 10
