"""SMTP sessions towards a test's relay, with time limits that suit a test."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from outbox_admin.core.classify import Break, Reply, classify
from outbox_admin.core.lifecycle import Outcome
from outbox_admin.delivery.compose import Composed
from outbox_admin.delivery.routes import Route, Tls
from outbox_admin.delivery.smtp import SmtpSession
from tests.support.relay import Relay

SENDER = "no-reply@shop.example"
RECIPIENT = "jane@example.com"
CONTENT = b"Subject: Hello\r\n\r\nHello Jane.\r\n"

QUICK = 1.0  #: stands for the 15 s of a reply, and for the 120 s of the final dot
GENEROUS = 60.0  #: seconds; where nothing should ever wait


@contextmanager
def session_to(
    relay: Relay, *, clock: Callable[[], float] = time.monotonic, **options: Any
) -> Iterator[SmtpSession]:
    """Plain by default, and patient: where a test wants a limit to be met it gives one (QUICK)."""
    limits = {"reply_timeout": GENEROUS, "final_timeout": GENEROUS, "handover_limit": 3 * GENEROUS}
    given = {"tls": Tls.NONE, **limits, **options}
    session = SmtpSession(Route("test", given.pop("host", "127.0.0.1"), relay.port, **given), clock=clock)
    try:
        yield session
    finally:
        session.close()


def message(content: bytes = CONTENT, *, to: str = RECIPIENT) -> Composed:
    return Composed(content, SENDER, to, smtputf8=False)


def deliver(session: SmtpSession, content: bytes = CONTENT, *, to: str = RECIPIENT) -> Reply | Break:
    return session.deliver(message(content, to=to))


def outcome_of(event: Reply | Break | None) -> type[Outcome]:
    """What becomes of a message after this event, by the careful rules."""
    assert event is not None
    return type(classify(event, literal_5xx=False))
