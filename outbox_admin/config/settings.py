"""What the rest of the package gets. Frozen; secrets stay out of its repr."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from outbox_admin.config.environment import Environment
from outbox_admin.config.refusals import Role, contradictions, refusals
from outbox_admin.core.rate import Limit
from outbox_admin.errors import ConfigurationError


def _secret() -> Any:
    return field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One field for each entry of :data:`~outbox_admin.config.SETTINGS`, in its order.

    Times that the monotonic clock measures are float seconds; those added to stored times are timedelta.
    ``debug`` is Flask's own switch (FLASK_DEBUG), kept to refuse it in production. ``key_ring_text`` is the ring
    itself where ``key_ring`` is ``env:NAME``.
    """

    env: str
    database_url: str | None = _secret()
    key_ring: str | None
    sender: str | None
    max_message: int
    notify: str
    template_folder: str | None
    smtp_url: str | None = _secret()
    smtp_url_2: str | None = _secret()
    smtp_user: str | None
    smtp_password: str | None = _secret()
    smtp_auth: str
    smtp_tls: str
    smtp_ca: str | None
    smtp_timeout: float
    smtp_final_timeout: float
    handover_limit: float
    helo: str | None
    smtp_rate: float | None
    smtp_burst: int
    smtp_rate_2: float | None
    smtp_burst_2: int
    simulate: bool
    redirect_to: str | None
    rules: str
    breaker: str
    five_xx: str
    unknown_key_grace: timedelta
    window: int | None  #: None: by the length of the queue
    claim: str
    lanes: int
    processes: int
    batch: int
    cycle: float
    wakeup: str
    lease: timedelta
    max_attempts: int
    backoff_base: float
    backoff_cap: float
    backoff_jitter: float
    give_up_after: timedelta
    stop_grace: float
    deployment: str
    embedded_worker: bool
    error_detail: bool
    purge: bool
    keep_payload: timedelta
    keep_done: timedelta
    keep_dead: timedelta
    console_secret: str | None = _secret()
    public_url: str | None
    trusted_hosts: tuple[str, ...] | None
    bind: tuple[str, int]
    allow_http: bool
    proxies: int
    proxy_peers: tuple[str, ...] | None
    metrics_token: str | None = _secret()
    console_timeout: timedelta
    debug: bool = False
    key_ring_text: str | None = field(default=None, repr=False)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        """Raises :class:`~outbox_admin.errors.ConfigurationError` with one sentence a line for each fault.

        What only a worker, console or producer needs is not asked for here but by :meth:`require`.
        """
        source = Environment(environ)
        found: dict[str, Any] = source.read()
        if ring := source.read_ring(found.get("key_ring")):
            found |= {"key_ring": ring.source, "key_ring_text": ring.text}
        if source.complaints:
            raise ConfigurationError("\n".join(source.complaints))
        settings = cls(**found, debug=_is_on(environ.get("FLASK_DEBUG", "")))
        complaints = contradictions(settings)
        if complaints:
            raise ConfigurationError("\n".join(complaints))
        return settings

    def require(self, *roles: Role) -> None:
        """Raises ConfigurationError where a process of these roles must not start with these settings."""
        complaints = refusals(self, *roles)
        if complaints:
            raise ConfigurationError("\n".join(complaints))

    @property
    def production(self) -> bool:
        return self.env == "production"

    @property
    def simulated(self) -> bool:
        """No relay: due mail is marked as sent and delivered to nobody."""
        return self.smtp_url is None

    @property
    def counts_channel_faults(self) -> bool:
        return self.breaker == "off"

    @property
    def literal_5xx(self) -> bool:
        return self.five_xx == "literal"

    @property
    def limit(self) -> Limit | None:
        """How fast the first relay may be sent to; None: as fast as it takes mail."""
        return None if self.smtp_rate is None else Limit(self.smtp_rate, self.smtp_burst)

    @property
    def limit_2(self) -> Limit | None:
        return None if self.smtp_rate_2 is None else Limit(self.smtp_rate_2, self.smtp_burst_2)

    @property
    def tls(self) -> str:
        """starttls, smtps, opportunistic or none."""
        return self.smtp_tls.removesuffix("-i-understand")

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names that the console answers to."""
        if self.trusted_hosts:
            return self.trusted_hosts
        host = urlsplit(self.public_url or "").hostname
        return (host,) if host else ()


def _is_on(text: str) -> bool:
    return text.lower() not in ("", "0", "false", "no")
