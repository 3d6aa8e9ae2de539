"""What the console has to know, as one value. Made of Settings, or by a host application by hand."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import timedelta

from outbox_admin.config import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """``secret`` (at least 32 characters or bytes) signs cursors, CSRF tokens, throttle subjects; never the key ring.

    ``secure`` is True where browsers reach the console over https: the cookie is then ``__Host-outbox``.
    ``trusted_hosts`` empty accepts any Host header (development). ``proxies`` is the number of proxies in front
    whose ``X-Forwarded-*`` headers are believed, ``proxy_peers`` the addresses or networks from which the nearest one
    connects (``unix``: over a socket file). ``simulating``: no relay is configured.
    """

    secret: str | bytes = field(repr=False)
    environment: str = "production"
    secure: bool = True
    trusted_hosts: tuple[str, ...] = ()
    proxies: int = 0
    proxy_peers: tuple[str, ...] = ()
    url_prefix: str = ""
    max_attempts: int = 8
    keep_payload: timedelta = timedelta(days=30)
    unknown_key_grace: timedelta = timedelta(hours=72)
    lease: timedelta = timedelta(minutes=5)
    session_idle: timedelta = timedelta(minutes=30)
    session_life: timedelta = timedelta(hours=12)
    metrics_token: str | None = field(default=None, repr=False)
    statement_limit: timedelta = timedelta(seconds=5)
    embedded_worker: bool = False
    simulating: bool = False
    insecure_http: bool = False
    notice: str | None = None
    version: str = ""

    def __post_init__(self) -> None:
        if not self.secret or len(self.secret) < 32:
            raise ValueError("the console's secret needs at least 32 characters or bytes")
        if self.statement_limit < timedelta(milliseconds=1):
            raise ValueError(
                "statement_limit must be at least a millisecond: PostgreSQL takes 0 for no limit"
            )
        if self.proxies and not self.proxy_peers:
            raise ValueError("proxies are believed only from named peers; give proxy_peers")


def of_settings(settings: Settings, *, notice: str | None, version: str) -> WebSettings:
    """Of the stand-alone console. ``notice`` is a sentence for every page."""
    return WebSettings(
        secret=_secret(settings),
        environment=settings.env,
        secure=(settings.public_url or "").startswith("https://"),
        trusted_hosts=settings.hosts,
        proxies=settings.proxies,
        proxy_peers=settings.proxy_peers or (),
        max_attempts=settings.max_attempts,
        keep_payload=settings.keep_payload,
        unknown_key_grace=settings.unknown_key_grace,
        lease=settings.lease,
        metrics_token=settings.metrics_token,
        statement_limit=settings.console_timeout,
        embedded_worker=settings.embedded_worker,
        simulating=settings.simulated,
        insecure_http=settings.production and settings.allow_http,
        notice=notice,
        version=version,
    )


def _secret(settings: Settings) -> bytes:
    """Production has its own (its absence was refused); elsewhere all processes of one database agree on one."""
    if settings.console_secret is not None:
        return settings.console_secret.encode()
    return hashlib.sha256(f"outbox-admin development {settings.database_url}".encode()).hexdigest().encode()
