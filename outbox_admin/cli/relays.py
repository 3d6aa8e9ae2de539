"""Asks a configured relay whether it would take mail: one connection with TLS, login and NOOP. Nothing is sent."""

from __future__ import annotations

from outbox_admin.core import catalogue
from outbox_admin.core.classify import classify
from outbox_admin.core.lifecycle import Accepted
from outbox_admin.delivery.routes import Route
from outbox_admin.delivery.smtp import SmtpSession


def complaint(route: Route) -> str | None:
    """What keeps mail from reaching the relay of ``route``, and the cure; None where it is ready.

    Raises ConfigurationError where its CA file cannot be read.
    """
    session = SmtpSession(route)
    event = session.probe()
    session.quit()
    if event is None:
        return None
    outcome = classify(event, literal_5xx=False)
    if isinstance(outcome, Accepted):
        return None
    return f"{catalogue.words(outcome.cause)}. {catalogue.cure(outcome.cause)}"
