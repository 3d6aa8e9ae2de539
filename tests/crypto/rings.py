"""Keys and rings with chosen dates, for the tests of this room."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.crypto.keys import TOMBSTONES, Key, KeyState, check_value

CREATED = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class HostClock:
    """Seconds since 1970, moved by hand."""

    def __init__(self, start: datetime = CREATED) -> None:
        self.moment = start

    def __call__(self) -> float:
        return self.moment.timestamp()

    def advance(self, span: timedelta) -> None:
        self.moment += span


def key(kid: str, *, day: int = 0, state: KeyState = KeyState.ENABLED, material: bytes | None = None) -> Key:
    """A key that seals from ``day`` on for 90 days; its material follows from its id unless given."""
    begins = CREATED + timedelta(days=day)
    secret = material or bytes.fromhex(kid) * 4
    return Key(
        kid=kid,
        created=CREATED,
        activates=begins,
        expires=begins + timedelta(days=90),
        check=check_value(secret, kid),
        material=None if state in TOMBSTONES else secret,
        state=state,
    )


def ring(*keys: Key, clock: HostClock | None = None) -> KeyRing:
    return KeyRing(keys, ring_id="0000000000000001", clock=clock or HostClock())
