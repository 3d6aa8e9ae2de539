"""From a connected socket to a relay that is ready for a message: greeting, EHLO, STARTTLS, login.

Whatever the relay said before TLS is forgotten with it (RFC 3207 4.2).
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
from dataclasses import dataclass

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break, Reply
from outbox_admin.delivery.exchange import Ended, Exchange, expect
from outbox_admin.delivery.login import log_in
from outbox_admin.delivery.routes import Route, Tls
from outbox_admin.delivery.wire import WireFault

_NOT_RECOGNISED = (500, 502, 504)
_FULL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)+\Z")


@dataclass(frozen=True, slots=True)
class Offer:
    """What the relay's EHLO offered. ``max_size`` in octets, None without a limit."""

    starttls: bool = False
    smtputf8: bool = False
    pipelining: bool = False
    has_size: bool = False
    max_size: int | None = None
    mechanisms: frozenset[str] = frozenset()


def tls_context(route: Route) -> ssl.SSLContext | None:
    """Verifies certificate and host name, TLS 1.2 or later. None for a plain route. Raises OSError on a bad CA file."""
    if route.tls is Tls.NONE:
        return None
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if route.ca_file is not None:
        context.load_verify_locations(route.ca_file)
    return context


def greet(exchange: Exchange, route: Route, context: ssl.SSLContext | None) -> Offer:
    """Raises :class:`Ended`."""
    if context is not None and route.tls is Tls.SMTPS:
        _secure(exchange, route, context)
    limit = exchange.deadline.within(exchange.reply_timeout)
    expect(exchange.hear(Phase.GREETING, limit), 220)
    offer = _hello(exchange, route)
    if context is not None and route.tls in (Tls.STARTTLS, Tls.OPPORTUNISTIC):
        offer = _upgrade(exchange, route, context, offer)
    if route.logs_in:
        log_in(exchange, route, offer.mechanisms)
    return offer


def _hello(exchange: Exchange, route: Route) -> Offer:
    name = (route.helo or _own_name(exchange)).encode("ascii")
    reply = exchange.ask(Phase.EHLO, b"EHLO " + name)
    if reply.code in _NOT_RECOGNISED and _needs_no_extension(route):
        expect(exchange.ask(Phase.EHLO, b"HELO " + name), 250)
        return Offer()
    return read_offer(expect(reply, 250))


def _needs_no_extension(route: Route) -> bool:
    return route.tls in (Tls.NONE, Tls.OPPORTUNISTIC) and not route.logs_in


def _own_name(exchange: Exchange) -> str:
    """Without asking the network: this host's name where it is a full one, else the connection's own address."""
    name = socket.gethostname()
    if _FULL_NAME.match(name):
        return name
    address = ipaddress.ip_address(exchange.wire.local_address.partition("%")[0])
    return f"[{address}]" if address.version == 4 else f"[IPv6:{address}]"


def read_offer(reply: Reply) -> Offer:
    """The extensions named by an EHLO reply, whose first line is a greeting. Unknown ones mean nothing to us."""
    words = [line.upper().replace("AUTH=", "AUTH ").split() for line in reply.text.split("\n")[1:]]
    named = {line[0]: line[1:] for line in words if line}
    size = named.get("SIZE", [])
    limit = int(size[0]) if size and size[0].isascii() and size[0].isdigit() and len(size[0]) <= 20 else 0
    logins = [mechanism for line in words if line and line[0] == "AUTH" for mechanism in line[1:]]
    return Offer(
        starttls="STARTTLS" in named,
        smtputf8="SMTPUTF8" in named,
        pipelining="PIPELINING" in named,
        has_size="SIZE" in named,
        max_size=limit or None,
        mechanisms=frozenset(logins),
    )


def _upgrade(exchange: Exchange, route: Route, context: ssl.SSLContext, offer: Offer) -> Offer:
    """Required: no TLS, no mail. Opportunistic: what is offered must hold, so that a bad certificate is not sent to."""
    if not offer.starttls:
        if route.tls is Tls.OPPORTUNISTIC:
            return offer
        raise Ended(Break(Phase.TLS, Kind.TLS_UNAVAILABLE, "the relay does not offer STARTTLS"))
    reply = exchange.ask(Phase.TLS, b"STARTTLS")
    if reply.code >= 400 and reply.code != 421 and route.tls is Tls.OPPORTUNISTIC:
        return offer
    expect(reply, 220)
    _secure(exchange, route, context)
    return _hello(exchange, route)


def _secure(exchange: Exchange, route: Route, context: ssl.SSLContext) -> None:
    try:
        exchange.wire.secure(context, route.host, exchange.deadline.within(exchange.reply_timeout))
    except WireFault as fault:
        raise Ended(Break(Phase.TLS, fault.kind, fault.raw)) from None
