"""The sealed form of a payload: 92 bytes of header, then AES-256-GCM, bound to its row and committed to its key.

::

    0   4   OBXE           8   8   key id                 60  32   commitment to the key
    4   1   version 1      16  32  salt, random           92  n+16 ciphertext and tag
    5   1   suite 1        48  12  nonce, random
    6   2   flags 0

Every envelope has a key of its own, derived from the master key and the salt (HKDF-SHA256, RFC 5869). Nothing here
knows a ring, a file or a clock, and nothing here decides what follows from an envelope that does not open.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from outbox_admin.errors import PayloadUnreadable, Unreadable

PAYLOAD_PURPOSE = "outbox-v1"
DETAIL_PURPOSE = "error-v1"

MAGIC = b"OBXE"
VERSION = 1
SUITE = 1
KEY_ID_BYTES = 8
SALT_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16

_LENGTH = struct.Struct(">I")
_HEADER = struct.Struct(">4sBBH8s32s12s32s")
HEADER_BYTES = _HEADER.size


class Bound(NamedTuple):
    """What the ciphertext is tied to: the purpose and the fields that must be the same when it is opened."""

    purpose: str
    fields: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Binding:
    """The columns that a payload is tied to, as stored. Moving the envelope or changing one of them is found out."""

    row_id: UUID
    idempotency_key: str
    recipient: str
    template_key: str

    def fields(self) -> tuple[bytes, ...]:
        texts = (self.idempotency_key, self.recipient, self.template_key)
        return (self.row_id.bytes, *(text.encode() for text in texts))

    def __repr__(self) -> str:
        return f"Binding(row_id={self.row_id})"


def prefixed(*parts: bytes) -> bytes:
    """Each part behind its length in four bytes, so that no two lists of parts give the same bytes."""
    return b"".join([_LENGTH.pack(len(part)) + part for part in parts])


def derive(master: bytes, *, salt: bytes, info: bytes, length: int) -> bytes:
    """HKDF-SHA256."""
    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=info).derive(master)


def seal(plaintext: bytes, *, master: bytes, kid: str, bound: Bound, salt: bytes, nonce: bytes) -> bytes:
    """``salt`` and ``nonce`` must be fresh random bytes for each call; only a test vector gives its own."""
    key, commitment = _keys(master, bytes.fromhex(kid), salt, bound.purpose)
    header = _HEADER.pack(MAGIC, VERSION, SUITE, 0, bytes.fromhex(kid), salt, nonce, commitment)
    return header + AESGCM(key).encrypt(nonce, plaintext, _associated(header, bound))


def open_sealed(envelope: bytes, *, master: bytes, bound: Bound) -> bytes:
    """Raises :class:`PayloadUnreadable`. The commitment is compared first: a wrong key never reaches the cipher."""
    check_format(envelope)
    header = envelope[:HEADER_BYTES]
    *_, kid, salt, nonce, commitment = _HEADER.unpack(header)
    key, expected = _keys(master, kid, salt, bound.purpose)
    if not hmac.compare_digest(commitment, expected):
        raise PayloadUnreadable(Unreadable.WRONG_MATERIAL)
    try:
        return AESGCM(key).decrypt(nonce, envelope[HEADER_BYTES:], _associated(header, bound))
    except InvalidTag:
        raise PayloadUnreadable(Unreadable.ALTERED) from None


def check_format(envelope: bytes) -> None:
    """Raises :class:`PayloadUnreadable` where this version cannot read the header.

    The version is judged before the length: only version 1 promises 108 bytes.
    """
    if envelope[:4] != MAGIC or len(envelope) < 6:
        raise PayloadUnreadable(Unreadable.MALFORMED)
    version, suite = envelope[4], envelope[5]
    if version == 0 or suite == 0:
        raise PayloadUnreadable(Unreadable.MALFORMED)
    if version > VERSION or suite > SUITE:
        raise PayloadUnreadable(Unreadable.NEWER_FORMAT)
    if len(envelope) < HEADER_BYTES + TAG_BYTES:
        raise PayloadUnreadable(Unreadable.MALFORMED)
    if envelope[6:8] != b"\0\0":
        raise PayloadUnreadable(Unreadable.NEWER_FORMAT)


def key_id_of(envelope: bytes) -> str | None:
    """The id of the key that sealed it, 16 hex digits; None where this is no envelope of version 1."""
    if len(envelope) < HEADER_BYTES or envelope[:4] != MAGIC or envelope[4] != VERSION:
        return None
    return envelope[8 : 8 + KEY_ID_BYTES].hex()


def _keys(master: bytes, kid: bytes, salt: bytes, purpose: str) -> tuple[bytes, bytes]:
    """The key that encrypts this one envelope, and the commitment to it."""
    material = derive(master, salt=salt, info=_info(kid, purpose), length=64)
    return material[:32], material[32:]


@lru_cache(maxsize=64)
def _info(kid: bytes, purpose: str) -> bytes:
    """Public, and the same for every envelope of a key."""
    return prefixed(b"outbox-admin/envelope", bytes((VERSION, SUITE)), kid, purpose.encode())


def _associated(header: bytes, bound: Bound) -> bytes:
    parts: Iterable[bytes] = (b"OBXE-AAD-1", header, bound.purpose.encode(), *bound.fields)
    return prefixed(*parts)
