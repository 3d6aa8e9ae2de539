"""The ring of a running process: its file is read again when it changed, so that a new key needs no restart.

A failed read keeps the last good ring and says so in ``problem``. The first read must succeed. Nothing here ever
makes up a key.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from outbox_admin.crypto.envelope import PAYLOAD_PURPOSE, Binding
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.crypto.keys import Clock, host_clock
from outbox_admin.crypto.ringfile import Stamp, path_of, read_file, stamp_of
from outbox_admin.errors import ConfigurationError, PayloadUnreadable, Unreadable

LOOK_EVERY = 30.0  #: seconds between two looks at the file's stamp
SEEK_EVERY = 10.0  #: seconds between two readings for the sake of an unknown key id

_log = logging.getLogger(__name__)


class WatchedRing:
    """A :class:`KeyRing` that follows its file; fulfils :class:`~outbox_admin.crypto.keys.Keys`.

    Safe to share between threads: one reads the file, the others go on with the ring they have.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        *,
        clock: Clock = host_clock,
        monotonic: Callable[[], float] = time.monotonic,
        look_every: float = LOOK_EVERY,
        seek_every: float = SEEK_EVERY,
    ) -> None:
        self._path = path_of(source)
        self._clock = clock
        self._monotonic = monotonic
        self._look_every = look_every
        self._seek_every = seek_every
        self._reading = threading.Lock()
        self._ring, self._stamp = self._read()
        self._looked_at = self._sought_at = monotonic()
        self._problem: str | None = None

    def __repr__(self) -> str:
        return f"WatchedRing({self._path!r}, {self._ring!r})"

    @property
    def ring(self) -> KeyRing:
        """The last good ring."""
        return self._ring

    @property
    def problem(self) -> str | None:
        """Why the last look at the file did not give its ring; None while all is well. Names no key material."""
        return self._problem

    def refresh(self) -> bool:
        """Looks at the file every 30 s and reads it if it changed. True when the ring is another one now."""
        if self._monotonic() - self._looked_at < self._look_every or not self._reading.acquire(
            blocking=False
        ):
            return False
        try:
            self._looked_at = self._monotonic()
            if self._problem is None and stamp_of(self._path) == self._stamp:
                return False
            return self._take()
        finally:
            self._reading.release()

    def seek(self) -> bool:
        """Reads the file, changed or not, because a key id is unknown; at most every 10 s. True as in refresh."""
        if self._monotonic() - self._sought_at < self._seek_every or not self._reading.acquire(
            blocking=False
        ):
            return False
        try:
            self._looked_at = self._sought_at = self._monotonic()
            return self._take()
        finally:
            self._reading.release()

    def _take(self) -> bool:
        before = self._ring
        try:
            ring, stamp = self._read()
        except ConfigurationError as error:
            self._alarm(str(error))
            return False
        if ring.ring_id == before.ring_id and ring.serial < before.serial:
            self._alarm(
                f"key ring {self._path}: has serial {ring.serial}, older than {before.serial} in use; "
                "put the newer file back, or restart to use the older one"
            )
            return False
        self._ring, self._stamp, self._problem = ring, stamp, None
        return (ring.ring_id, ring.serial, ring.keys) != (before.ring_id, before.serial, before.keys)

    def _read(self) -> tuple[KeyRing, Stamp]:
        text, stamp = read_file(self._path)
        return KeyRing.from_text(text, origin=self._path, clock=self._clock), stamp

    def _alarm(self, problem: str) -> None:
        if problem != self._problem:
            _log.error("%s; the ring in use stays in use", problem)
        self._problem = problem

    # -- what a ring does, with the ring of this moment ----------------------------------------------------------

    @property
    def usable_ids(self) -> frozenset[str]:
        return self._ring.usable_ids

    @property
    def lost_ids(self) -> frozenset[str]:
        return self._ring.lost_ids

    @property
    def revoked_ids(self) -> frozenset[str]:
        return self._ring.revoked_ids

    @property
    def newest_id(self) -> str:
        return self._ring.newest_id

    @property
    def sealing_until(self) -> datetime | None:
        return self._ring.sealing_until

    @property
    def check_values(self) -> dict[str, str]:
        return self._ring.check_values

    def seal(self, plaintext: bytes, binding: Binding, *, purpose: str = PAYLOAD_PURPOSE) -> bytes:
        """As :meth:`KeyRing.seal`; looks at the file first when it is time, for a producer has no cycle of its own."""
        self.refresh()
        return self._ring.seal(plaintext, binding, purpose=purpose)

    def open(
        self,
        envelope: bytes,
        binding: Binding,
        *,
        purpose: str = PAYLOAD_PURPOSE,
        key_id: str | None = None,
    ) -> bytes:
        """As :meth:`KeyRing.open`; an unknown key id may be a ring that was extended a moment ago."""
        try:
            return self._ring.open(envelope, binding, purpose=purpose, key_id=key_id)
        except PayloadUnreadable as error:
            if error.reason is not Unreadable.UNKNOWN_KEY or not self.seek():
                raise
        return self._ring.open(envelope, binding, purpose=purpose, key_id=key_id)

    def seal_again(self, plaintext: bytes, binding: Binding) -> bytes:
        return self._ring.seal_again(plaintext, binding)

    def seal_detail(self, text: str, *, row_id: UUID, attempt: int) -> bytes:
        return self._ring.seal_detail(text, row_id=row_id, attempt=attempt)

    def open_detail(self, sealed: bytes, *, row_id: UUID, attempt: int) -> str:
        return self._ring.open_detail(sealed, row_id=row_id, attempt=attempt)

    def fingerprint(self, raw: str) -> str:
        return self._ring.fingerprint(raw)


def open_ring(source: str | os.PathLike[str], *, text: str | None = None) -> KeyRing | WatchedRing:
    """The ring of a running process. ``text`` is the ring itself where ``source`` names no file (``env:NAME``).

    Raises :class:`ConfigurationError`.
    """
    if text is None:
        return WatchedRing(source)
    _log.warning(
        "key ring %s: whoever may look into this process's environment (/proc) sees the keys, and a change needs a "
        "restart; give file:PATH or cred:NAME",
        source,
    )
    return KeyRing.from_text(text, origin=os.fspath(source))
