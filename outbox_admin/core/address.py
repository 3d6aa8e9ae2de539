"""Addresses: one strict grammar for everything that may reach RCPT or an address field.

Taken: dot-atoms before the at sign (RFC 5321 4.1.2; RFC 6531 letters too), host names after it (RFC 1123, IDNA by
UTS 46). Refused on purpose: quoted local parts and address literals (legal, yet relays cut them wrongly), comments,
routes, lists. Nothing here guesses what was meant, and nothing asks the network.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

import idna

from outbox_admin.errors import MessageRefused

MAX_LOCAL = 64  #: octets, RFC 5321 4.5.3.1.1
MAX_ADDRESS = 254  #: octets: the path of 4.5.3.1.3 without its angle brackets
MAX_NAME = 500  #: characters of a display name
NULL_SENDER = "<>"  #: the null reverse-path (RFC 5321 4.5.5): nobody wants to hear of a failure

_ATOM = r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ASCII = re.compile(rf"({_ATOM}+(?:\.{_ATOM}+)*)@({_LABEL}(?:\.{_LABEL})*)")
_ATEXT = re.compile(rf"{_ATOM}+(?:\.{_ATOM}+)*")
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PHRASE = re.compile(r'[^()<>\[\]:;@\\,"]+')
_ESCAPED = re.compile(r"\\(.)")
#: Unicode's Default_Ignorable_Code_Point; but for the joiners, which IDNA judges by what stands around them
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
#: a display name that stands without quotes (RFC 5322 3.2.5: a phrase of atoms)
PLAIN_NAME = re.compile(rf"{_ATOM}+(?: {_ATOM}+)*")


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """``local`` as given (NFC), ``domain`` lower-case A-labels."""

    local: str
    domain: str

    @property
    def smtputf8(self) -> bool:
        """Only a non-ASCII local part needs the extension (RFC 6531 3.2)."""
        return not self.local.isascii()

    @property
    def envelope(self) -> str:
        """What RCPT, MAIL and the address fields carry."""
        return f"{self.local}@{self.domain}"

    @property
    def key(self) -> str:
        """For comparing: one mailbox whatever the case (``recipient_key``)."""
        return f"{self.local.casefold()}@{self.domain}"


@dataclass(frozen=True, slots=True, repr=False)
class Mailbox:
    """An address with its display name (may be empty). ``str()`` gives a form that :func:`parse_mailbox` reads back.

    The way to give a name that holds commas, quotes or brackets without quoting it oneself:
    ``Mailbox.of("jane@example.com", 'O\\'Neil, "Jane"')``.
    """

    name: str
    address: Address

    @classmethod
    def of(cls, address: str, name: str = "", *, field: str = "to") -> Mailbox:
        """Raises :class:`MessageRefused`."""
        return cls(check_name(name, field=field), parse(address, field=field))

    def __str__(self) -> str:
        if not self.name:
            return self.address.envelope
        if PLAIN_NAME.fullmatch(self.name):
            return f"{self.name} <{self.address.envelope}>"
        quoted = self.name.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{quoted}" <{self.address.envelope}>'


def parse(text: str, *, field: str) -> Address:
    """One bare address; blanks around it are dropped, anything else is refused.

    Raises :class:`MessageRefused` naming ``field``; the reason never repeats the text.
    """
    if not isinstance(text, str):
        raise MessageRefused(field, "an address is a str")
    text = text.strip(" ")
    if match := _ASCII.fullmatch(text):
        local, domain = match.groups()
        return _measured(Address(local, domain.lower()), field=field)
    return _parse_slowly(text, field=field)


def parse_domain(text: str, *, field: str) -> str:
    """A bare domain as lower-case A-labels, the way it stands behind the at sign of every :attr:`Address.key`.

    Raises :class:`MessageRefused`.
    """
    if "@" in text:
        raise MessageRefused(field, "give the domain alone, without the part before the at sign")
    return parse(f"x@{text.strip(' ')}", field=field).domain


def parse_mailbox(text: str, *, field: str) -> Mailbox:
    """``jane@example.com``, ``Jane Doe <jane@example.com>`` or ``"Doe, Jane" <jane@example.com>``: exactly one.

    Raises :class:`MessageRefused`.
    """
    if not isinstance(text, str):
        raise MessageRefused(field, "an address is a str or a Mailbox")
    text = text.strip(" ")
    if not text.endswith(">"):
        return Mailbox("", parse(text, field=field))
    shown, bracket, address = text[:-1].rpartition("<")
    if not bracket:
        raise MessageRefused(field, "a closing angle bracket without an opening one")
    return Mailbox(_parse_name(shown.strip(" "), field=field), parse(address, field=field))


def check_name(name: str, *, field: str) -> str:
    """A display name without blanks at its ends. Raises :class:`MessageRefused` for line breaks, NUL, surrogates."""
    if not isinstance(name, str):
        raise MessageRefused(field, "a display name is a str")
    if name.isascii() and name.isprintable():
        return _short_name(name.strip(" "), field=field)
    if "\r" in name or "\n" in name:
        raise MessageRefused(field, "a display name has no line breaks")
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        raise MessageRefused(field, "a display name has no control characters and no half surrogate pairs")
    return _short_name(name.strip(" "), field=field)


def _short_name(name: str, *, field: str) -> str:
    if len(name) > MAX_NAME:
        raise MessageRefused(field, f"a display name has at most {MAX_NAME} characters")
    return name


def _parse_name(shown: str, *, field: str) -> str:
    if match := _QUOTED.fullmatch(shown):
        return check_name(_ESCAPED.sub(r"\1", match[1]), field=field)
    if shown and not _PHRASE.fullmatch(shown):
        raise MessageRefused(field, 'one address only; a name with commas stands in quotes: "Doe, Jane" <…>')
    return check_name(shown, field=field)


def _parse_slowly(text: str, *, field: str) -> Address:
    """What the fast pattern did not take: say why, or convert a non-ASCII address."""
    if not text:
        raise MessageRefused(field, "an address is empty")
    if '"' in text:
        raise MessageRefused(field, "quoted local parts are not taken")
    local, at, domain = text.rpartition("@")
    if not at or not local or not domain:
        raise MessageRefused(field, "an address is local-part@domain")
    if domain.startswith("["):
        raise MessageRefused(field, "address literals are not taken; give a domain name")
    return _measured(Address(_local(local, field=field), _domain(domain, field=field)), field=field)


def _local(local: str, *, field: str) -> str:
    """RFC 6531 3.3: atext and what lies beyond ASCII, here only what can be seen (no blanks, bidi or format marks)."""
    ascii_shape = "".join(character if character.isascii() else "x" for character in local)
    if not _ATEXT.fullmatch(ascii_shape) or not local.isprintable():
        raise MessageRefused(field, "the part before the at sign holds characters that are not taken there")
    if local.isascii():
        return local
    if _INVISIBLE.search(local) or any(unicodedata.category(sign)[0] in "ZC" for sign in local):
        raise MessageRefused(field, "the part before the at sign holds blanks or invisible characters")
    return unicodedata.normalize("NFC", local)


def _domain(domain: str, *, field: str) -> str:
    if not domain.isascii():
        if _INVISIBLE.search(domain):  # IDNA would drop it without a word
            raise MessageRefused(field, "the domain holds invisible characters")
        try:
            domain = idna.encode(domain, uts46=True).decode("ascii")
        except (idna.IDNAError, UnicodeError):
            # Not chained: that exception carries the domain.
            raise MessageRefused(field, "the domain is not a valid internationalised name") from None
    if not _HOST.fullmatch(domain):
        raise MessageRefused(field, "the domain is not a host name")
    return domain.lower()


def _measured(address: Address, *, field: str) -> Address:
    octets = len(address.local) if address.local.isascii() else len(address.local.encode())
    if octets > MAX_LOCAL:
        raise MessageRefused(field, f"the part before the at sign has more than {MAX_LOCAL} octets")
    if octets + 1 + len(address.domain) > MAX_ADDRESS:
        raise MessageRefused(field, f"the address has more than {MAX_ADDRESS} octets")
    if address.domain.rpartition(".")[2].isdigit():
        raise MessageRefused(field, "the domain ends in a number; give a domain name")
    return address
