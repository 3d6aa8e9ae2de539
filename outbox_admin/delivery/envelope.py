"""The envelope of one message as command lines. The last gate before the wire: what could break a line is refused.

Addresses were checked and brought into their envelope form long before (core/address); an :class:`Unsendable` from here
means that something bypassed that, and nothing has been sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from outbox_admin.core.cause import Kind
from outbox_admin.delivery.greet import Offer

MAX_LINE = 512  #: octets with CRLF, RFC 5321 4.5.3.1.4

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]"
_DOMAIN = r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?|\[[A-Za-z0-9:.]+\])"
_ASCII_PATH = re.compile(rf"{_ATOM}{{1,64}}@{_DOMAIN}\Z")
_UTF8_PATH = re.compile(rf"(?:{_ATOM}|[^\x00-\xa0])+@{_DOMAIN}\Z")


class Unsendable(ValueError):
    """Sent as it is, it could break the dialogue. Nothing of it has left; no other ValueError promises that."""


@dataclass(frozen=True, slots=True, repr=False)
class Envelope:
    """``sender`` may be empty (the null return path); ``size`` in octets, before dot-stuffing (RFC 1870 5)."""

    sender: str
    recipient: str
    size: int
    smtputf8: bool = False

    def __post_init__(self) -> None:
        self._check(self.recipient, "recipient")
        if self.sender:
            self._check(self.sender, "sender")

    def commands(self, offer: Offer) -> tuple[bytes, bytes, bytes]:
        """MAIL, RCPT and DATA, without line ends, as this relay understands them."""
        mail = f"MAIL FROM:<{self.sender}>"
        if offer.has_size:
            mail += f" SIZE={self.size}"
        if self.smtputf8:
            mail += " SMTPUTF8"
        return mail.encode(), f"RCPT TO:<{self.recipient}>".encode(), b"DATA"

    def obstacle(self, offer: Offer) -> tuple[Kind, str] | None:
        """Why this relay cannot take it, in our own words; found before anything is sent."""
        if self.smtputf8 and not offer.smtputf8:
            return Kind.UNSUPPORTED, "address needs SMTPUTF8, relay does not offer it"
        if offer.max_size is not None and self.size > offer.max_size:
            return Kind.TOO_LARGE, f"message of {self.size} octets, relay takes {offer.max_size}"
        return None

    def _check(self, path: str, what: str) -> None:
        pattern = _UTF8_PATH if self.smtputf8 else _ASCII_PATH
        fits = len(path.encode("utf-8", "replace")) <= 254
        if not (fits and path.isprintable() and pattern.match(path)):
            raise Unsendable(f"the {what} is not an address that may stand in an SMTP command")
