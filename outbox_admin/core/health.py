"""The figures of a queue and the words of a judgement over them. Pure values; :mod:`outbox_admin.core.findings` judges.

The command line, the metrics and the console's overview say the same because all three take it from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from outbox_admin.core.cause import Cause
from outbox_admin.core.hold import Hold

#: Without a beat for so long a worker counts as lost (E20).
LOST_AFTER = timedelta(seconds=30)
#: A worker that holds rows and has recorded nothing for so long is stuck (E20).
STUCK_AFTER = timedelta(seconds=200)
#: Heartbeats older than this are history, not news.
FORGOTTEN_AFTER = timedelta(days=1)
START_COMMANDS = (
    "outbox-admin worker",
    "gunicorn outbox_admin.delivery.host:app",
    "OUTBOX_EMBEDDED_WORKER=1 outbox-admin web",
)


class Level(StrEnum):
    """Ordered by :attr:`rank`; ``status`` exits with it."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(Level).index(self)


@dataclass(frozen=True, slots=True)
class Count:
    """``capped``: at least so many; counting stopped there."""

    value: int
    capped: bool = False

    def __str__(self) -> str:
        return f"{self.value:,}+" if self.capped else f"{self.value:,}"


NONE = Count(0)


@dataclass(frozen=True, slots=True)
class MissingKey:
    """Rows wait for a key that no live worker holds. ``since`` is when that was noticed first.

    ``revoked``: a live worker's ring has it and calls it revoked; then nothing is rejected until somebody decides.
    """

    kid: str
    waiting: Count
    since: datetime
    grace: timedelta
    revoked: bool = False

    @property
    def rejects_at(self) -> datetime:
        return self.since + self.grace


@dataclass(frozen=True, slots=True)
class Pause:
    """A route on which nothing is sent. ``host`` None: the whole fleet; else this worker only.

    ``trials``: so many messages are tried at a time, to see whether it works again. ``probing_by``: who asks the relay
    right now.
    """

    route: str
    host: str | None
    cause: Cause | None
    since: datetime | None
    next_probe_at: datetime | None
    trials: int | None = None
    probing_by: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A hold in force. ``rows``: due messages that it keeps back; what is not due yet is not among them."""

    hold: Hold
    rows: Count


@dataclass(frozen=True, slots=True)
class Crew:
    """Workers by what their heartbeat says. *Lost*: no beat for 30 s. *Stuck*: holds rows, no progress for 200 s.

    *Copied* and *paused* workers are alive and send nothing: their database is a copy; they were started so.
    """

    active: int = 0
    draining: int = 0
    lost: int = 0
    stuck: int = 0
    last_beat_at: datetime | None = None
    copied: int = 0
    paused: int = 0

    @property
    def alive(self) -> int:
        return self.active + self.draining + self.copied + self.paused


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one thing: what is, since when, and what to do (``cure``, empty when all is well).

    ``subject``: the route, hold or key that something can be done about; ``command`` does it.
    """

    topic: str
    level: Level
    sentence: str
    cure: str = ""
    subject: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """What is judged. Ages in seconds, None when there is no such row.

    ``held`` counts rows that wait for something else than their time: by hold, format, unreadable. ``seals_until``:
    when the first of the workers' key rings has no key left that seals; the producers' rings are copies of these.
    ``copied_since``: when a worker first saw that this database is a copy; sending has stopped.
    """

    now: datetime
    oldest_due: float | None
    oldest_pending: float | None
    failed: Count
    uncertain: Count
    rejected_last_hour: Count
    crew: Crew
    held: dict[str, Count]
    missing_keys: tuple[MissingKey, ...] = ()
    pauses: tuple[Pause, ...] = ()
    holds: tuple[Held, ...] = ()
    copied_since: datetime | None = None
    simulating: bool = False
    redirected_to: tuple[str, ...] = ()
    expired_last_hour: Count = NONE
    seals_until: datetime | None = None
