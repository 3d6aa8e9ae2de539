"""One configured relay: where it is, how it is protected, how long it may take. Values only, no socket.

A route that would send a password over an unprotected link cannot be made.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from outbox_admin.core.rate import Limit
from outbox_admin.errors import ConfigurationError

E = TypeVar("E", bound=StrEnum)

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?"
_HELO = re.compile(rf"(?:{_NAME}(?:\.{_NAME})*|\[[0-9A-Fa-f.:IPv]+\])\Z")
_HOST = re.compile(r"[A-Za-z0-9:][A-Za-z0-9._:%-]*\Z")


class Tls(StrEnum):
    """How the link to the relay is protected. Wherever TLS is spoken the certificate is verified."""

    STARTTLS = "starttls"  #: required: without it nothing is sent
    SMTPS = "smtps"  #: TLS from the first octet (port 465)
    OPPORTUNISTIC = (
        "opportunistic"  #: STARTTLS where the relay offers it, plain where it does not; never a login
    )
    NONE = "none"  #: plain; a login only to the loopback address


class Auth(StrEnum):
    """Which login mechanism to use."""

    AUTO = "auto"  #: XOAUTH2 with a token; else PLAIN where offered, else LOGIN
    PLAIN = "plain"
    LOGIN = "login"
    XOAUTH2 = "xoauth2"


_PORTS = {Tls.STARTTLS: 587, Tls.SMTPS: 465, Tls.OPPORTUNISTIC: 25, Tls.NONE: 25}


@dataclass(frozen=True, slots=True)
class Route:
    """One relay. Time limits in seconds: connecting and each reply, the final dot's reply, a whole hand-over.

    ``token`` is called for each login with XOAUTH2 and returns an access token; it should answer within seconds.
    ``helo`` is the name given to EHLO, a domain or an address literal; None takes this host's full name, or the
    literal of the connection's own address where the host has none. ``ca_file`` is trusted beside the system's
    authorities. ``limit``: how fast messages may begin, over all workers together. Raises
    :class:`ConfigurationError`, which never contains the password.
    """

    name: str
    host: str
    port: int
    tls: Tls = Tls.STARTTLS
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: Callable[[], str] | None = field(default=None, repr=False)
    reply_timeout: float = 15.0
    final_timeout: float = 120.0
    handover_limit: float = 180.0
    helo: str | None = None
    ca_file: str | None = None
    auth: Auth = Auth.AUTO
    limit: Limit | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tls", _choice(Tls, self.tls, "SMTP TLS"))
        object.__setattr__(self, "auth", _choice(Auth, self.auth, "SMTP login mechanism"))
        self._check_place()
        self._check_login()

    @classmethod
    def from_url(cls, url: str, *, name: str = "primary", **options: Any) -> Route:
        """``smtp://user:password@relay.example:587`` or ``smtps://…``; ``options`` are fields and win over the URL.

        User and password are percent-decoded. ``smtps`` sets ``tls``; without a port it is 465 for smtps, 587 for
        STARTTLS, 25 for the other two.
        """
        parts = _split(url)
        wanted = _choice(Tls, options.pop("tls", None) or Tls.STARTTLS, "SMTP TLS")
        tls = Tls.SMTPS if parts.scheme == "smtps" else wanted
        given: dict[str, Any] = {
            "username": unquote(parts.username) if parts.username else None,
            "password": unquote(parts.password) if parts.password else None,
        }
        given |= {key: value for key, value in options.items() if value is not None}
        return cls(
            name=name,
            host=parts.hostname or "",
            port=parts.port or _PORTS[tls],
            tls=tls,
            **given,
        )

    @property
    def logs_in(self) -> bool:
        return self.username is not None

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine by its very name; nothing is resolved."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def _check_place(self) -> None:
        if not _HOST.match(self.host):
            raise ConfigurationError("SMTP URL: the host is missing or not a host name.")
        if not 1 <= self.port <= 65535:
            raise ConfigurationError("SMTP URL: the port must lie between 1 and 65535.")
        if self.helo is not None and not _HELO.match(self.helo):
            raise ConfigurationError(
                "SMTP HELO name: give a domain or an address literal such as [192.0.2.1]."
            )
        if min(self.reply_timeout, self.final_timeout, self.handover_limit) <= 0:
            raise ConfigurationError("SMTP time limits must be positive.")

    def _check_login(self) -> None:
        secret = self.password is not None or self.token is not None
        if (self.username is not None) != secret:
            raise ConfigurationError("SMTP login: give both a user and a password (or a token), or neither.")
        if self.auth is Auth.XOAUTH2 and self.token is None and secret:
            raise ConfigurationError("SMTP login: xoauth2 needs a token hook instead of a password.")
        for value in (self.username, self.password):
            if value is not None and re.search(r"[\x00-\x1f\x7f]", value):
                raise ConfigurationError("SMTP login: user and password must not contain control characters.")
        if self.logs_in and not self._may_log_in():
            raise ConfigurationError(
                "SMTP login: a password is sent only over verified TLS (starttls or smtps), "
                "or without TLS to the loopback address; set SMTP TLS accordingly."
            )

    def _may_log_in(self) -> bool:
        return self.tls in (Tls.STARTTLS, Tls.SMTPS) or (self.tls is Tls.NONE and self.is_loopback)


def _choice(kind: type[E], value: str, what: str) -> E:
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(member.value for member in kind)
        raise ConfigurationError(f"{what}: choose one of {names}.") from None


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it is what checks it
    except ValueError:
        raise ConfigurationError("SMTP URL: not a URL; write smtp://user:password@host:port.") from None
    if parts.scheme not in ("smtp", "smtps"):
        raise ConfigurationError("SMTP URL: it must begin with smtp:// or smtps://.")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ConfigurationError(
            "SMTP URL: nothing may follow the port; percent-encode / ? and # in a password."
        )
    return parts
