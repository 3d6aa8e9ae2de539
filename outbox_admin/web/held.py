"""What a held message waits for: since when, why, and who can end it."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from outbox_admin.core.hold import STAMP, Hold
from outbox_admin.core.lifecycle import State
from outbox_admin.core.stops import covered
from outbox_admin.core.words import span
from outbox_admin.db.reads import crew, holds
from outbox_admin.db.reads import message as reads
from outbox_admin.db.reads.rows import MessageDetail
from outbox_admin.web.visit import Visit

_SENTENCES = {
    "format": (
        "It was sealed by a newer version than any worker understands, or with a key that the ring calls revoked. "
        "Upgrade the workers; `outbox-admin keys list` names revoked keys."
    ),
    "unreadable": (
        "It cannot be opened, and rejecting was stopped because too many could not. Find out what altered the rows or "
        "the key ring; `outbox-admin unreadable` then says what becomes of them."
    ),
    "alone": "A worker ended while it held this message. It is tried again by itself, not within a batch.",
}


def held_words(asking: Visit, message: MessageDetail) -> str:
    """Empty for a message that waits for nothing but its time."""
    stamp = message.held or ""
    if stamp.startswith(STAMP):
        return _of_hold(asking, stamp.removeprefix(STAMP))
    if stamp.startswith("key:"):
        return _of_key(asking, stamp.removeprefix("key:"))
    return _SENTENCES.get(stamp, "It is held.") if stamp else ""


def key_note(asking: Visit, message: MessageDetail) -> str:
    """What is wrong with the message's key, empty when nothing is."""
    standing = reads.key_standing(asking.db, message.key_id)
    if standing is None:
        return ""
    if standing.lost:
        return "declared lost"
    if standing.missing_since is None:
        return ""
    if _is_revoked(asking, standing.kid):
        waits = "; the message waits until somebody decides" if message.state is State.PENDING else ""
        return f"revoked in the key ring{waits}"
    left = (standing.missing_since + asking.console.settings.unknown_key_grace - asking.now).total_seconds()
    when = f"in {span(left)}" if left > 0 else "with the next cycle"
    return f"no worker holds it; {when} the message is rejected"


def _of_hold(asking: Visit, hexadecimal: str) -> str:
    found = holds.find(asking.db, hold_id, now=asking.now) if (hold_id := _id(hexadecimal)) else None
    if found is None:
        return "Its hold is over; a worker gives it back to the queue."
    return f"{_told(found.hold, asking.now)} {_ending(found.hold, asking.now)}"


def _told(hold: Hold, now: datetime) -> str:
    what = covered(hold.scope, hold.value)
    since = span((now - hold.created_at).total_seconds())
    return f"Held for {since} by {hold.who}: “{hold.reason}” ({what[:1].lower()}{what[1:]})."


def _ending(hold: Hold, now: datetime) -> str:
    itself = f", or by itself in {span((hold.until - now).total_seconds())}" if hold.until else ""
    return f"It goes out when the hold is lifted{itself}."


def _of_key(asking: Visit, kid: str) -> str:
    if _is_revoked(asking, kid):
        return (
            f"Its key {kid} is revoked in the key ring. It goes out when the key is enabled there again, "
            "and is rejected when the key is declared lost; until then it waits."
        )
    return (
        f"No worker holds key {kid}. Restore the key ring, or declare the key lost; "
        "then, or when the grace is over, it is rejected."
    )


def _is_revoked(asking: Visit, kid: str) -> bool:
    return kid in crew.revoked(crew.heartbeats(asking.db, now=asking.now), now=asking.now)


def _id(hexadecimal: str) -> UUID | None:
    try:
        return UUID(hex=hexadecimal)
    except ValueError:
        return None
