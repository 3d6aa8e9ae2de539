"""What the rooms of delivery are built from: the parts and the rules, as plain values.

Settings are read elsewhere; here they are already meaning. Nothing in this module does anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

from outbox_admin.core.backoff import Backoff
from outbox_admin.core.lifecycle import Policy

if TYPE_CHECKING:
    from outbox_admin.crypto.keys import Keys
    from outbox_admin.delivery.clock import Clock
    from outbox_admin.delivery.routes import Route
    from outbox_admin.delivery.templates import Templates

#: A new hand-over must leave this many seconds of the lease beyond its own limit (E12).
HANDOVER_MARGIN = 30.0


class Wakeup(StrEnum):
    """How a worker learns of new mail, beside the commits of its own process."""

    AUTO = "auto"  #: listens where that works, says so where it does not
    POLL = "poll"  #: only looks
    NOTIFY = "notify"  #: listens, and is loud where that does not work


@dataclass(frozen=True, slots=True)
class Keeping:
    """How long rows and payloads stay after they are done, counted from ``finished_at``."""

    payload: timedelta = timedelta(days=30)
    done: timedelta = timedelta(days=90)
    dead: timedelta = timedelta(days=365)
    purges: bool = True


@dataclass(frozen=True, slots=True)
class Rules:
    """The figures of one deployment; the defaults are those of the rules called ``careful``.

    ``window`` None means: as the load says, at most the batch. ``unknown_key_grace`` zero claims and rejects what no
    key opens. ``sender`` is the default From of messages that were put in by hand. ``deployment`` is the name that
    the database has to remember. ``redirect_to`` gets every mail in place of its recipient.
    """

    sender: str | None = None
    batch: int = 20
    cycle: float = 2.0
    lease: timedelta = timedelta(minutes=5)
    handover_limit: float = 180.0
    policy: Policy = field(default_factory=lambda: Policy(Backoff()))
    literal_5xx: bool = False
    breaker: bool = True
    unknown_key_grace: timedelta = timedelta(hours=72)
    window: int | None = None
    give_up_after: timedelta = timedelta(days=3)
    keeping: Keeping = field(default_factory=Keeping)
    error_detail: bool = True
    stop_grace: float = 25.0
    deployment: str | None = None
    redirect_to: str | None = None
    wakeup: Wakeup = Wakeup.POLL


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a worker works with. No routes means the simulated one.

    ``roll`` gives numbers in [0, 1), ``token`` random UUIDs.
    """

    engine: sa.Engine
    ring: Keys
    routes: tuple[Route, ...]
    rules: Rules
    clock: Clock
    roll: Callable[[], float]
    token: Callable[[], UUID]
    templates: Templates | None = None

    @property
    def redirect_to(self) -> str | None:
        """Whom RCPT names in place of the recipient; nobody where no relay is asked."""
        return self.rules.redirect_to if self.routes else None
