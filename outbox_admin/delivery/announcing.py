"""What a worker says when it is made: where its mail goes. The first thing to look at when none arrives."""

from __future__ import annotations

import logging

from outbox_admin.delivery.parts import Parts

log = logging.getLogger("outbox_admin.delivery")


def announce(parts: Parts, name: str) -> None:
    """One line for each relay; a warning where mail reaches nobody, or somebody else."""
    if not parts.routes:
        log.warning("no relay is set (OUTBOX_SMTP_URL): mail is marked as sent and reaches nobody")
    for route in parts.routes:
        log.info("worker %s sends to %s:%d (%s)", name, route.host, route.port, route.tls)
    if parts.redirect_to is not None:
        log.warning("every mail goes to the one address of OUTBOX_REDIRECT_TO, not to its recipient")
