"""Argon2id for console passwords, as PHC strings. Nothing else may hash or compare a password."""

from __future__ import annotations

import os
import re
from threading import BoundedSemaphore

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

#: KiB, passes, lanes: the least that OWASP recommends; a stored hash that is weaker is renewed at sign-in.
MEMORY, PASSES, LANES = 19_456, 2, 1
SHORTEST = 12

#: Each hash takes 19 MiB and a core for some tens of milliseconds; a flood of sign-ins must not take them all.
_at_once = BoundedSemaphore(2)
_WAIT = 10.0

_PHC = re.compile(r"\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$")


class Busy(Exception):
    """Too many passwords are being checked already."""


def hash_password(password: str) -> str:
    """``$argon2id$v=19$m=19456,t=2,p=1$…``. Raises ValueError for a password shorter than :data:`SHORTEST`."""
    if len(password) < SHORTEST:
        raise ValueError(f"a password needs at least {SHORTEST} characters")
    return _derive(password)


def renewed(password: str) -> str:
    """A fresh hash of a password that has just been verified, however short an old rule let it be."""
    return _derive(password)


def verify(password: str, stored: str | None) -> bool:
    """``stored`` None (no such account) takes as long as a wrong password. Raises :class:`Busy`."""
    if not _at_once.acquire(timeout=_WAIT):
        raise Busy
    try:
        Argon2id.verify_phc_encoded(password.encode(), stored or _NOBODY)
    except (InvalidKey, ValueError):
        return False
    finally:
        _at_once.release()
    return stored is not None


def is_weak(stored: str) -> bool:
    """Whether the hash was made with less than we ask for now."""
    found = _PHC.match(stored)
    return found is None or int(found[1]) < MEMORY or int(found[2]) < PASSES


def _derive(password: str) -> str:
    kdf = Argon2id(salt=os.urandom(16), length=32, iterations=PASSES, lanes=LANES, memory_cost=MEMORY)
    return kdf.derive_phc_encoded(password.encode())


_NOBODY = _derive("nobody's password, so that an unknown account takes as long as a known one")
