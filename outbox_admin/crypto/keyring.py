"""The key ring: the newest key seals, every usable one opens. A value; a changed ring is another value.

A ring is loaded or, on demand, generated. No process makes up a key because loading failed: the messages under the
missing key would be stranded, and two processes would seal for each other what neither can open.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from outbox_admin.crypto import choice
from outbox_admin.crypto import envelope as sealed_form
from outbox_admin.crypto.detail import clean
from outbox_admin.crypto.envelope import (
    DETAIL_PURPOSE,
    NONCE_BYTES,
    PAYLOAD_PURPOSE,
    SALT_BYTES,
    Binding,
    Bound,
    derive,
    prefixed,
)
from outbox_admin.crypto.keys import (
    ACTIVATION_DELAY,
    CLOCK_SKEW,
    TOMBSTONES,
    Clock,
    Key,
    KeyState,
    draw_key,
    host_clock,
    moment_of,
)
from outbox_admin.crypto.ringfile import locked, path_of, read_file, write_file
from outbox_admin.crypto.ringtext import read_ring, write_ring
from outbox_admin.errors import ConfigurationError, PayloadUnreadable, Unreadable

__all__ = ["Binding", "KeyRing"]


class KeyRing:
    """Keys by id. Safe to share between threads. ``ring_id`` and ``serial`` tell one state of a ring from another."""

    __slots__ = ("_clock", "_keys", "ring_id", "serial")

    def __init__(
        self, keys: Iterable[Key], *, ring_id: str, serial: int = 1, clock: Clock = host_clock
    ) -> None:
        self.ring_id = ring_id
        self.serial = serial
        self._keys = {key.kid: key for key in keys}
        self._clock = clock

    def __repr__(self) -> str:
        return f"KeyRing(ring_id={self.ring_id!r}, serial={self.serial}, {len(self._keys)} keys)"

    # -- where rings come from and go to ------------------------------------------------------------------------

    @classmethod
    def load(cls, source: str | os.PathLike[str], *, clock: Clock = host_clock) -> KeyRing:
        """From ``file:PATH`` or a path. Raises :class:`ConfigurationError`, naming the file and the cure."""
        path = path_of(source)
        return cls.from_text(read_file(path).text, origin=path, clock=clock)

    @classmethod
    def from_text(cls, text: str, *, origin: str, clock: Clock = host_clock) -> KeyRing:
        """From the text of a ring file; ``origin`` is how messages call it, such as ``env:OUTBOX_RING``."""
        ring_id, serial, keys = read_ring(text, origin=origin)
        return cls(keys, ring_id=ring_id, serial=serial, clock=clock)

    @classmethod
    def generate(cls, *, clock: Clock = host_clock) -> KeyRing:
        """A new ring with one key, which seals at once. Only ever on somebody's explicit wish."""
        now = moment_of(clock).replace(microsecond=0)
        return cls(
            [draw_key(created=now, activates=now - CLOCK_SKEW)], ring_id=secrets.token_hex(8), clock=clock
        )

    def extended(self) -> KeyRing:
        """This ring and one more key. It seals after 48 h, or as soon as no other key would, so that no gap opens."""
        now = moment_of(self._clock).replace(microsecond=0)
        soonest = self.sealing_until or now - CLOCK_SKEW
        key = draw_key(created=now, activates=min(now + ACTIVATION_DELAY, soonest))
        keys = (*self._keys.values(), key)
        return KeyRing(keys, ring_id=self.ring_id, serial=self.serial + 1, clock=self._clock)

    def to_text(self) -> str:
        """The ring file's text, with the key material in it."""
        return write_ring(self.ring_id, self.serial, self._keys.values())

    def write(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Atomically, mode 0600. An existing file is left alone unless ``replace`` is given, and then it may only be
        replaced by a later state of the same ring that lacks none of its ids. Raises :class:`ConfigurationError`."""
        with locked(path_of(path)):
            if replace:
                self._check_succeeds(KeyRing.load(path), path_of(path))
            write_file(path_of(path), self.to_text(), replace=replace)

    def _check_succeeds(self, earlier: KeyRing, path: str) -> None:
        later = self.ring_id == earlier.ring_id and self.serial > earlier.serial
        if not later or earlier._keys.keys() - self._keys.keys():
            raise ConfigurationError(
                f"key ring {path}: is not an earlier state of the ring to be written, and is left as it is"
            )

    # -- what it holds ------------------------------------------------------------------------------------------

    @property
    def keys(self) -> tuple[Key, ...]:
        """All of them, in the ring's order; their repr shows no material."""
        return tuple(self._keys.values())

    @property
    def usable_ids(self) -> frozenset[str]:
        """The keys that open: what a claim may ask for."""
        return frozenset(key.kid for key in self._keys.values() if key.opens)

    @property
    def lost_ids(self) -> frozenset[str]:
        """The tombstones: what was sealed with these will never be opened."""
        return frozenset(key.kid for key in self._keys.values() if key.state in TOMBSTONES)

    @property
    def revoked_ids(self) -> frozenset[str]:
        """Neither seal nor open, and are not lost: what becomes of their messages is an operator's choice."""
        return frozenset(key.kid for key in self._keys.values() if key.state is KeyState.REVOKED)

    @property
    def problem(self) -> str | None:
        return None  # nothing is read again, so nothing can fail

    @property
    def check_values(self) -> dict[str, str]:
        """Check value by key id, of every key whose material is here."""
        return {key.kid: key.check for key in self._keys.values() if key.material is not None}

    @property
    def newest_id(self) -> str:
        """The key that seals now. Raises :class:`ConfigurationError` where none may."""
        return self._sealing_key().kid

    @property
    def sealing_until(self) -> datetime | None:
        """From this moment on no key of the ring, as it is now, may seal. None: that is so already."""
        return choice.sealing_until(self._keys.values(), moment_of(self._clock))

    def refresh(self) -> bool:
        """A ring by itself never changes; :class:`~outbox_admin.crypto.watched.WatchedRing` does. Always False."""
        return False

    seek = refresh

    def seal(
        self,
        plaintext: bytes,
        binding: Binding,
        *,
        purpose: str = PAYLOAD_PURPOSE,
        salt: bytes = b"",
        nonce: bytes = b"",
    ) -> bytes:
        """An envelope that opens for this binding alone. ``salt`` and ``nonce`` are for test vectors."""
        bound = Bound(purpose, binding.fields())
        return self._seal(plaintext, bound, key=self._sealing_key(), salt=salt, nonce=nonce)

    def open(
        self,
        envelope: bytes,
        binding: Binding,
        *,
        purpose: str = PAYLOAD_PURPOSE,
        key_id: str | None = None,
    ) -> bytes:
        """The plaintext. ``key_id`` is what the row's column says: another id in the header is an alteration.

        Raises :class:`PayloadUnreadable`.
        """
        return self._open(envelope, Bound(purpose, binding.fields()), key_id=key_id)

    def seal_again(self, plaintext: bytes, binding: Binding) -> bytes:
        """For the worker, of a message that was sealed before: with an expired key rather than not at all."""
        return self._seal(plaintext, Bound(PAYLOAD_PURPOSE, binding.fields()), key=self._resealing_key())

    def seal_detail(self, text: str, *, row_id: UUID, attempt: int) -> bytes:
        """The text behind an error: cleaned, cut to 500 characters, bound to the row and its try ``attempt``.

        An expired key will do: a result must be recorded whatever date it is.
        """
        return self._seal(clean(text).encode(), _detail_bound(row_id, attempt), key=self._resealing_key())

    def open_detail(self, sealed: bytes, *, row_id: UUID, attempt: int) -> str:
        """Raises :class:`PayloadUnreadable`."""
        return self._open(sealed, _detail_bound(row_id, attempt)).decode()

    def fingerprint(self, raw: str) -> str:
        """16 hex digits; equal texts share it. Keyed, since the bare hash of an address could be guessed."""
        newest = choice.newest_held(self._keys.values(), moment_of(self._clock))
        key = derive(
            _material(newest), salt=b"", info=prefixed(b"outbox-admin/fingerprint", b"err-v1"), length=32
        )
        return hmac.new(key, raw.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()[:8].hex()

    def _seal(
        self, plaintext: bytes, bound: Bound, *, key: Key, salt: bytes = b"", nonce: bytes = b""
    ) -> bytes:
        return sealed_form.seal(
            plaintext,
            master=_material(key),
            kid=key.kid,
            bound=bound,
            salt=salt or secrets.token_bytes(SALT_BYTES),
            nonce=nonce or secrets.token_bytes(NONCE_BYTES),
        )

    def _open(self, envelope: bytes, bound: Bound, *, key_id: str | None = None) -> bytes:
        sealed_form.check_format(envelope)
        kid = sealed_form.key_id_of(envelope)
        if key_id is not None and kid != key_id:
            raise PayloadUnreadable(Unreadable.ALTERED)
        key = self._keys.get(kid or "")
        return sealed_form.open_sealed(envelope, master=_material(choice.opening(key)), bound=bound)

    def _sealing_key(self) -> Key:
        key = choice.newest_sealing(self._keys.values(), moment_of(self._clock))
        if key is None:
            raise ConfigurationError(
                f"key ring {self.ring_id}: no key is enabled, active and unexpired, so nothing can be sealed; "
                "add one with: outbox-admin keys generate"
            )
        return key

    def _resealing_key(self) -> Key:
        return choice.resealing(self._keys.values(), moment_of(self._clock)) or self._sealing_key()


def _material(key: Key | None) -> bytes:
    if key is None or key.material is None:
        raise PayloadUnreadable(Unreadable.LOST)
    return key.material


def _detail_bound(row_id: UUID, attempt: int) -> Bound:
    return Bound(DETAIL_PURPOSE, (row_id.bytes, str(attempt).encode()))
