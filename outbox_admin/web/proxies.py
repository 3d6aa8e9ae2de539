"""Whom ``X-Forwarded-*`` is believed from: the proxies that were named, and nobody else."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.middleware.proxy_fix import ProxyFix

SOCKET = "unix"


class BehindProxies:
    """``count`` proxies add one value each; ``peers`` are where the nearest of them connects from."""

    def __init__(self, app: WSGIApplication, *, count: int, peers: Iterable[str]) -> None:
        self._plain = app
        self._fixed = ProxyFix(app, x_for=count, x_proto=count, x_host=count, x_prefix=count)
        named = set(peers)
        self._socket = SOCKET in named
        self._networks = [ipaddress.ip_network(peer) for peer in named - {SOCKET}]

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        app = self._fixed if self._is_proxy(environ.get("REMOTE_ADDR", "")) else self._plain
        return app(environ, start_response)

    def _is_proxy(self, peer: str) -> bool:
        if not peer:
            return self._socket
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._networks)
