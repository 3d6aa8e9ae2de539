"""Waiting for a database that is away, or turns the worker's login down, when a worker starts.

What is wrong is said with its cure: when it is first met, when it changes, and then again now and then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import sqlalchemy as sa

from outbox_admin.delivery.faults import describe, is_login_refused
from outbox_admin.delivery.signals import Call

#: Seconds between two tries: doubling from the first to the last.
AGAIN_FIRST, AGAIN_LAST = 1.0, 30.0
#: Seconds after which the same sentence is said again.
SAY_AGAIN = 600.0

REFUSED = (
    "the database server turns the worker's login down (%s): the server's log says whether it is user, password or "
    "database name; correct that in OUTBOX_DATABASE_URL and restart the worker, or on the server, and it goes on"
)
AWAY = (
    "the database does not answer, the worker waits for it (%s): see that it runs, and that OUTBOX_DATABASE_URL "
    "names its host and port; `outbox-admin db check` tries it"
)

log = logging.getLogger("outbox_admin.delivery")


def until_it_answers(step: Callable[[], object], call: Call) -> bool:
    """Does ``step`` again and again until the database answers it. False when a signal came first."""
    pause, said, said_at = AGAIN_FIRST, "", 0.0
    while True:
        try:
            step()
            return True
        except (sa.exc.OperationalError, sa.exc.InterfaceError) as error:
            words = (REFUSED if is_login_refused(error) else AWAY) % describe(error)
        if words != said or time.monotonic() - said_at >= SAY_AGAIN:
            log.error("%s", words)
            said, said_at = words, time.monotonic()
        if call.wait(pause):
            return False
        pause = min(pause * 2, AGAIN_LAST)
