"""The worker against a real Postfix as providers run it: STARTTLS demanded, then a login, then mail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from email import message_from_bytes, policy

import pytest

from outbox_admin import Message
from outbox_admin.core.classify import Reply
from outbox_admin.core.lifecycle import State
from outbox_admin.core.message import Attachment
from outbox_admin.delivery.compose import Composed
from outbox_admin.delivery.routes import Route, Tls
from outbox_admin.delivery.smtp import SmtpSession
from tests.delivery.room import Room, drain
from tests.support import postfix
from tests.support.certificates import Authority

pytestmark = [pytest.mark.postfix, pytest.mark.smtp]


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[postfix.Postfix]:
    reason = postfix.missing()
    if reason is not None:
        pytest.skip(reason)
    good = authority.good
    with postfix.running(good.certificate.read_bytes(), good.key.read_bytes()) as running:
        yield running


@pytest.fixture
def route(server: postfix.Postfix, authority: Authority) -> Route:
    return Route(
        name="primary",
        host="localhost",
        port=server.port,
        tls=Tls.STARTTLS,
        username=postfix.USER,
        password=postfix.PASSWORD,
        ca_file=str(authority.ca_file),
    )


def test_postfix_takes_a_message_over_starttls_and_login(
    room: Room, server: postfix.Postfix, route: Route
) -> None:
    before = len(list((server.home / "mail").glob("all/new/*")))
    invoice = Attachment("Rechnung März.pdf", bytes(range(256)) * 40, "application/pdf")
    message = Message(
        "kaeufer@example.com",
        "Ihre Rechnung für März – 42 €",
        "Guten Tag,\n.\nanbei die Rechnung.\n-- \nDer Laden\n",
        "<p>anbei die <b>Rechnung</b></p>",
        attachments=[invoice],
    )
    row_id = room.enqueue(message=message)

    drain(room.dispatcher(route))

    sent = room.row(row_id)
    assert (sent.state, sent.attempts, sent.route) == (State.SENT, 1, "primary")
    assert sent.provider_id in server.log()
    mail = server.mails(count=before + 1)
    parsed = next(
        found
        for found in (message_from_bytes(one, policy=policy.default) for one in mail)
        if found["Message-ID"] == sent.message_id
    )
    assert parsed["Subject"] == message.subject
    assert parsed.get_body(("plain",)).get_content() == message.text
    assert [part.get_content() for part in parsed.iter_attachments()] == [invoice.content]
    assert [part.get_filename() for part in parsed.iter_attachments()] == [invoice.name]


def test_postfix_refuses_a_mailbox_and_the_next_message_is_sent(room: Room, route: Route) -> None:
    refused = room.enqueue(postfix.REFUSED)
    taken = room.enqueue("taken@example.com")

    drain(room.dispatcher(route))

    row = room.row(refused)
    assert (row.state, row.payload, row.cause_code, row.cause_enhanced) == (
        State.REJECTED,
        None,
        550,
        "5.1.1",
    )
    assert room.row(taken).state == State.SENT


def test_postfix_is_pipelined_and_a_refused_mailbox_leaves_its_neighbours_alone(
    server: postfix.Postfix, route: Route
) -> None:
    before = len(server.mails(count=0))
    names = ["one@example.com", postfix.REFUSED, "two@example.com", "three@example.com"]
    mails = [
        Composed(b"Subject: for %b\r\n\r\n.\r\n" % name.encode(), "shop@example.com", name, smtputf8=False)
        for name in names
    ]
    session = SmtpSession(route)
    events = [session.deliver(mail, then=then) for mail, then in zip(mails, [*mails[1:], None], strict=True)]
    assert session.uses == len(names)
    session.quit()

    assert [event.code if isinstance(event, Reply) else event for event in events] == [250, 550, 250, 250]
    arrived = b"".join(server.mails(count=before + 3))
    assert [arrived.count(b"Subject: for %b\n" % name.encode()) for name in names] == [1, 0, 1, 1]


def test_a_wrong_password_at_postfix_leaves_every_message_pending(room: Room, route: Route) -> None:
    rows = [room.enqueue() for _ in range(3)]

    drain(room.dispatcher(replace(route, password="changed last night")))

    found = [room.row(row) for row in rows]
    assert [(row.state, row.attempts) for row in found] == [(State.PENDING, 0)] * 3
    assert {row.cause_phase for row in found} == {"auth", None}


def test_a_certificate_that_is_not_trusted_stops_before_the_login(
    room: Room, route: Route, server: postfix.Postfix
) -> None:
    logins = server.log().count("sasl_method")
    row_id = room.enqueue()

    drain(room.dispatcher(replace(route, ca_file=None)))

    row = room.row(row_id)
    assert (row.state, row.attempts, row.cause_kind) == (State.PENDING, 0, "tls_verify")
    assert server.log().count("sasl_method") == logins
