"""Login to the relay (RFC 4954): PLAIN, LOGIN and XOAUTH2. One attempt per connection, whatever comes of it.

A route never carries a login over an unprotected link; that is checked where routes are made.
"""

from __future__ import annotations

import base64

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break
from outbox_admin.delivery.exchange import Ended, Exchange, expect
from outbox_admin.delivery.routes import Auth, Route

_MAX_COMMAND = 510  # RFC 4954 4: an initial response that makes the line longer waits for a 334


def log_in(exchange: Exchange, route: Route, offered: frozenset[str]) -> None:
    """``offered`` are the mechanisms of the EHLO reply inside TLS, in capitals. Raises :class:`Ended`."""
    match _choose(route, offered):
        case Auth.PLAIN:
            secret = f"\0{route.username}\0{route.password}".encode()
            _respond(exchange, b"AUTH PLAIN", secret)
        case Auth.XOAUTH2:
            secret = f"user={route.username}\1auth=Bearer {_token(route)}\1\1".encode()
            _respond(exchange, b"AUTH XOAUTH2", secret)
        case _:
            _prompted(exchange, route)


def _choose(route: Route, offered: frozenset[str]) -> Auth:
    wanted = [route.auth]
    if route.auth is Auth.AUTO:
        wanted = [Auth.XOAUTH2] if route.token else [Auth.PLAIN, Auth.LOGIN]
    for mechanism in wanted:
        if mechanism.name in offered:
            return mechanism
    names = " ".join(sorted(offered)) or "no login"
    raise Ended(Break(Phase.AUTH, Kind.UNSUPPORTED, f"the relay offers {names}"))


def _token(route: Route) -> str:
    if route.token is None:
        raise Ended(Break(Phase.AUTH, Kind.UNSUPPORTED, "xoauth2 without a token hook"))
    try:
        return route.token()
    except Exception as error:  # noqa: BLE001 - the hook is the operator's code: its fault is one of the login
        raise Ended(Break(Phase.AUTH, Kind.AUTH_REJECTED, f"token hook: {type(error).__name__}")) from None


def _respond(exchange: Exchange, command: bytes, secret: bytes) -> None:
    coded = base64.b64encode(secret)
    if len(command) + 1 + len(coded) <= _MAX_COMMAND:
        reply = exchange.ask(Phase.AUTH, command + b" " + coded)
    else:
        expect(exchange.ask(Phase.AUTH, command), 334)
        reply = exchange.ask(Phase.AUTH, coded)
    if (
        reply.code == 334
    ):  # XOAUTH2: the challenge tells the error; the empty response fetches the refusal itself
        reply = exchange.ask(Phase.AUTH, b"")
    expect(reply, 235)


def _prompted(exchange: Exchange, route: Route) -> None:
    expect(exchange.ask(Phase.AUTH, b"AUTH LOGIN"), 334)
    expect(exchange.ask(Phase.AUTH, base64.b64encode((route.username or "").encode())), 334)
    expect(exchange.ask(Phase.AUTH, base64.b64encode((route.password or "").encode())), 235)
