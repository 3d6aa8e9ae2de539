"""The console's own tokens: keyed hashes, sealed search terms. Made from its own secret, never from the key ring."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM


class Signer:
    """Each use has its own purpose: a token of one purpose is worth nothing for another."""

    def __init__(self, secret: str | bytes) -> None:
        self._secret = secret.encode() if isinstance(secret, str) else secret

    def __repr__(self) -> str:
        return "Signer()"

    def keyed_hash(self, purpose: str, text: str) -> str:
        return self._mac(purpose, text.encode()).hex()

    def sign(self, purpose: str, data: bytes) -> str:
        """``data`` readable, with 16 bytes of MAC; safe in a URL."""
        return _encode(self._mac(purpose, data)[:16] + data)

    def check(self, purpose: str, token: str) -> bytes | None:
        """What was signed, or None."""
        raw = _decode(token)
        if raw is None or not hmac.compare_digest(raw[:16], self._mac(purpose, raw[16:])[:16]):
            return None
        return raw[16:]

    def seal(self, purpose: str, text: str) -> str:
        """Unreadable without the secret; safe in a URL and in a log."""
        nonce = os.urandom(12)
        return _encode(nonce + self._cipher(purpose).encrypt(nonce, text.encode(), None))

    def open(self, purpose: str, token: str) -> str | None:
        """What was sealed, or None."""
        raw = _decode(token)
        if raw is None or len(raw) < 28:
            return None
        try:
            return self._cipher(purpose).decrypt(raw[:12], raw[12:], None).decode()
        except InvalidTag:
            return None

    def _cipher(self, purpose: str) -> AESGCM:
        return AESGCM(self._mac("cipher", purpose.encode()))

    def _mac(self, purpose: str, data: bytes) -> bytes:
        return hmac.new(self._secret, purpose.encode() + b"\0" + data, hashlib.sha256).digest()


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _decode(token: str) -> bytes | None:
    try:
        return base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
