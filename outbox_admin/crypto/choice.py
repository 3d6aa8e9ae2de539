"""Which key of a ring does what at a given moment: seal, open, keep a running system recording. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from outbox_admin.crypto.keys import TOMBSTONES, Key, KeyState
from outbox_admin.errors import PayloadUnreadable, Unreadable


def newest_sealing(keys: Iterable[Key], moment: datetime) -> Key | None:
    """The newest key that is enabled, activated and unexpired."""
    return max((key for key in keys if key.seals_at(moment)), key=_age, default=None)


def newest_held(keys: Iterable[Key], moment: datetime) -> Key | None:
    """The newest activated key whose material is here, sealing or not; one that is not yet active as a last resort."""
    held = (key for key in keys if key.material is not None)
    return max(held, key=lambda key: (key.activates <= moment, *_age(key)), default=None)


def sealing_until(keys: Iterable[Key], moment: datetime) -> datetime | None:
    """From when on no key may seal, following each that takes over in time. None where that is so already."""
    until = None
    for key in sorted(keys, key=_age):
        if key.state is KeyState.ENABLED and key.activates <= (until or moment) < key.expires:
            until = key.expires
    return until


def resealing(keys: Iterable[Key], moment: datetime) -> Key | None:
    """The key that seals now, else the newest that still opens: for what must be kept whatever date it is."""
    able = [key for key in keys if key.opens]
    return newest_sealing(able, moment) or newest_held(able, moment)


def opening(key: Key | None) -> Key:
    """``key`` itself if it may open. Raises :class:`PayloadUnreadable` with the reason."""
    if key is None:
        raise PayloadUnreadable(Unreadable.UNKNOWN_KEY)
    if key.state in TOMBSTONES:
        raise PayloadUnreadable(Unreadable.LOST)
    if key.state is KeyState.REVOKED:
        raise PayloadUnreadable(Unreadable.REVOKED)
    return key


def _age(key: Key) -> tuple[datetime, datetime, str]:
    return key.activates, key.created, key.kid
