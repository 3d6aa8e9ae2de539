"""The demo's relay: what it does with the recipients that the demo names, and that it keeps what it took."""

import socket

import pytest

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break, Reply
from outbox_admin.delivery.compose import Composed
from outbox_admin.delivery.routes import Route, Tls
from outbox_admin.delivery.smtp import SmtpSession
from outbox_admin.demo.relay import ByName, Catcher, Caught

CONTENT = b"Subject: Hello\r\n\r\n.\r\n..\r\nHello.\r\n"


@pytest.fixture
def names() -> ByName:
    return ByName()


def send(relay: Catcher, *recipients: str) -> list[int | Kind]:
    route = Route("catcher", relay.host, relay.port, tls=Tls.NONE, reply_timeout=60, final_timeout=2)
    session = SmtpSession(route)
    messages = [Composed(CONTENT, "shop@example.com", each, smtputf8=False) for each in recipients]
    events: list[Reply | Break] = [session.deliver(message) for message in messages]
    session.quit()
    return [event.code if isinstance(event, Reply) else event.kind for event in events]


def test_what_it_takes_it_keeps() -> None:
    with Catcher() as relay:
        assert send(relay, "ok@example.com", "anybody@example.com") == [250, 250]
        assert relay.messages == [
            Caught("shop@example.com", (recipient,), CONTENT)
            for recipient in ("ok@example.com", "anybody@example.com")
        ]


def test_deferred_once_is_taken_the_second_time_for_each_address(names: ByName) -> None:
    with Catcher(decide=names) as relay:
        twice = ["deferred-once@example.com"] * 2 + ["deferred-once+2@example.com"] * 2
        assert send(relay, *twice) == [451, 250, 451, 250]


def test_always_deferred_waits_for_the_repair(names: ByName) -> None:
    with Catcher(decide=names) as relay:
        assert send(relay, *["always-deferred+7@example.com"] * 3) == [451] * 3
        names.repair()
        assert send(relay, "always-deferred+7@example.com") == [250]


def test_refused_is_refused(names: ByName) -> None:
    with Catcher(decide=names) as relay:
        assert send(relay, "refused@example.com", "ok@example.com") == [550, 250]
        assert [message.recipients for message in relay.messages] == [("ok@example.com",)]


def test_stalls_never_answers_the_dot_and_keeps_nothing(names: ByName) -> None:
    with Catcher(decide=names) as relay:
        assert send(relay, "stalls@example.com") == [Kind.TIMEOUT]
        assert send(relay, "ok@example.com") == [250]
        assert len(relay.messages) == 1


def test_commands_out_of_order_get_503_and_a_stop_closes_open_connections() -> None:
    with Catcher() as relay, socket.create_connection((relay.host, relay.port), timeout=60) as talker:
        talker.sendall(b"DATA\r\nRCPT TO:<a@example.com\r\nHELO x\r\n")
        octets = b""
        while octets.count(b"\n") < 4:
            octets += talker.recv(1000)
        assert [line[:3] for line in octets.splitlines()] == [b"220", b"503", b"503", b"250"]


def test_the_port_is_free_again_afterwards() -> None:
    with Catcher() as relay:
        port = relay.port
    with Catcher(port=port) as again:
        assert send(again, "ok@example.com") == [250]


def test_phases_of_a_refusal_are_those_of_the_recipient(names: ByName) -> None:
    with Catcher(decide=names) as relay:
        session = SmtpSession(Route("catcher", relay.host, relay.port, tls=Tls.NONE))
        assert (
            session.deliver(Composed(CONTENT, "", "refused@example.com", smtputf8=False)).phase is Phase.RCPT
        )
        session.quit()
