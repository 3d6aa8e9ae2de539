"""One key of a ring: its times, its state, its check value; and :class:`Keys`, what the program asks of rings.

No files here. A key's material appears in no repr, no message and no comparison that stops early.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from outbox_admin.crypto.envelope import KEY_ID_BYTES, PAYLOAD_PURPOSE, Binding, derive, prefixed

MATERIAL_BYTES = 32
LIFETIME = timedelta(days=90)  #: a key seals for so long; it opens for as long as it is kept
ACTIVATION_DELAY = timedelta(
    hours=48
)  #: so that every worker has read a new key before anything is sealed with it

CLOCK_SKEW = timedelta(minutes=5)  #: a key that seals at once must do so on a host whose clock is behind, too

#: Seconds since 1970. The only clock of this room: activation and expiry are dates in a file.
Clock = Callable[[], float]
host_clock: Clock = time.time


class KeyState(StrEnum):
    """What a key may still do. An id never leaves its ring: the last two are tombstones, without material."""

    ENABLED = "enabled"  #: seals between its dates, opens
    DISABLED = "disabled"  #: opens, never seals
    REVOKED = "revoked"  #: neither, until an operator decides what becomes of its messages
    DESTROYED = "destroyed"  #: erased on purpose
    LOST = "lost"  #: gone against our will


OPENING = frozenset({KeyState.ENABLED, KeyState.DISABLED})
TOMBSTONES = frozenset({KeyState.DESTROYED, KeyState.LOST})


@dataclass(frozen=True, slots=True)
class Key:
    """``kid`` is 16 hex digits; times are aware UTC; ``material`` is None for a tombstone."""

    kid: str
    created: datetime
    activates: datetime
    expires: datetime
    check: str
    material: bytes | None = field(repr=False)
    state: KeyState = KeyState.ENABLED

    def seals_at(self, moment: datetime) -> bool:
        return self.state is KeyState.ENABLED and self.activates <= moment < self.expires

    @property
    def opens(self) -> bool:
        return self.material is not None and self.state in OPENING

    @property
    def is_sound(self) -> bool:
        """Whether the check value is that of the material. A tombstone's cannot be told any more."""
        if self.material is None:
            return True
        return hmac.compare_digest(self.check, check_value(self.material, self.kid))


class Keys(Protocol):
    """What producers and workers ask of a ring, watched or not."""

    @property
    def usable_ids(self) -> frozenset[str]: ...

    @property
    def lost_ids(self) -> frozenset[str]: ...

    @property
    def revoked_ids(self) -> frozenset[str]: ...

    @property
    def problem(self) -> str | None: ...

    @property
    def newest_id(self) -> str: ...

    @property
    def sealing_until(self) -> datetime | None: ...

    @property
    def check_values(self) -> dict[str, str]: ...

    def refresh(self) -> bool: ...

    def seek(self) -> bool: ...

    def seal(self, plaintext: bytes, binding: Binding, *, purpose: str = PAYLOAD_PURPOSE) -> bytes: ...

    def open(
        self, envelope: bytes, binding: Binding, *, purpose: str = PAYLOAD_PURPOSE, key_id: str | None = None
    ) -> bytes: ...

    def seal_again(self, plaintext: bytes, binding: Binding) -> bytes: ...

    def seal_detail(self, text: str, *, row_id: UUID, attempt: int) -> bytes: ...

    def open_detail(self, sealed: bytes, *, row_id: UUID, attempt: int) -> str: ...

    def fingerprint(self, raw: str) -> str: ...


def check_value(material: bytes, kid: str) -> str:
    """Tells a wrong ring from a damaged payload without telling anything of the key: 16 hex digits."""
    info = prefixed(b"outbox-admin/key-check", bytes.fromhex(kid))
    return derive(material, salt=b"", info=info, length=8).hex()


def draw_key(*, created: datetime, activates: datetime) -> Key:
    """A new random key, from the system's generator."""
    material = secrets.token_bytes(MATERIAL_BYTES)
    kid = secrets.token_hex(KEY_ID_BYTES)
    return Key(
        kid=kid,
        created=created,
        activates=activates,
        expires=activates + LIFETIME,
        check=check_value(material, kid),
        material=material,
    )


def moment_of(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock(), UTC)
