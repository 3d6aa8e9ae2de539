"""Whether this worker may send from this database at all: it is no copy, and nobody asked the worker to wait.

A worker that may not send stays alive and changes nothing; it looks again each cycle, and its heartbeat says why.
"""

from __future__ import annotations

import logging
from datetime import datetime

import sqlalchemy as sa

from outbox_admin.db.reads import deployment as reads
from outbox_admin.db.store import deployment
from outbox_admin.delivery.common import Common, Halt
from outbox_admin.delivery.parts import Parts

_SEEN = "outbox_deployment"

log = logging.getLogger("outbox_admin.delivery")


class Standing:
    """``paused``: the worker was started to wait until an operator lets it send."""

    def __init__(self, parts: Parts, common: Common, *, paused: bool) -> None:
        self._parts = parts
        self._common = common
        self._paused = paused
        self._paused_at: datetime | None = None
        common.halted = Halt.UNSEEN

    def look(self, db: sa.Connection, now: datetime) -> None:
        """Once a cycle."""
        copied = deployment.check(db, name=self._parts.rules.deployment, now=now)
        before, self._common.halted = self._common.halted, self._reason(db, copied, now)
        if self._common.halted is before:
            return
        if copied is not None:
            log.critical(COPIED, ", ".join(copied.differs))
        elif self._common.halted is Halt.PAUSED:
            log.warning("nothing is sent until `outbox-admin resume`: the worker was started with --paused")
        elif before is not Halt.UNSEEN:
            log.warning("sending begins")

    def _reason(self, db: sa.Connection, copied: reads.Copied | None, now: datetime) -> Halt | None:
        if copied is not None:
            return Halt.COPIED
        if not self._paused:
            return None
        self._paused_at = self._paused_at or now
        resumed = reads.resumed_at(db)
        self._paused = resumed is None or resumed < self._paused_at
        return Halt.PAUSED if self._paused else None


COPIED = (
    "nothing is sent: this database is a copy (another %s than it remembers). If it is now the one that sends, run "
    "`outbox-admin resume --confirm-copy`"
)


def fits(db: sa.Connection, *, name: str | None) -> bool:
    """False for a copy. Asked once for each connection: a restored database may have taken the other's place since."""
    if _SEEN not in db.info:
        if reads.copied(db, name=name) is not None:
            return False
        db.info[_SEEN] = True
    return True
