"""Why a process must not start: settings that contradict each other, or that production does not allow.

Each refusal is one sentence with setting, reason and cure, and never a value. What needs an open key ring or
database is checked where those are opened.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from outbox_admin.config.settings import Settings

_SAMPLES = ("change-me", "changeme", "secret", "example", "replace")


class Role(StrEnum):
    """What a process is; one may be several."""

    PRODUCER = "producer"
    WORKER = "worker"
    CONSOLE = "console"


def contradictions(settings: Settings) -> list[str]:
    """What is wrong in every environment and role."""
    return list(_contradictions(settings))


def refusals(settings: Settings, *roles: Role, production: bool | None = None) -> list[str]:
    """What keeps these roles from starting; in development only what they cannot work without.

    ``production`` True judges other settings as if they were meant for production.
    """
    found = list(_missing(settings, roles))
    if settings.production if production is None else production:
        found += _database(settings)
        if Role.WORKER in roles:
            found += _relay(settings)
        if Role.CONSOLE in roles:
            found += _console(settings)
    return found


def _contradictions(settings: Settings) -> Iterator[str]:
    if settings.lease.total_seconds() <= settings.handover_limit + 60:
        yield (
            "OUTBOX_LEASE must be more than 60 s longer than OUTBOX_HANDOVER_LIMIT, or a message could be "
            "claimed again while it is still being handed over; lengthen the one or shorten the other."
        )
    if settings.smtp_final_timeout > settings.handover_limit:
        yield (
            "OUTBOX_SMTP_FINAL_TIMEOUT is longer than OUTBOX_HANDOVER_LIMIT, which would end the wait; "
            "shorten the one or lengthen the other."
        )
    if settings.backoff_cap < settings.backoff_base:
        yield "OUTBOX_BACKOFF_CAP is shorter than OUTBOX_BACKOFF_BASE; raise the cap."
    if settings.simulate and settings.smtp_url:
        yield "OUTBOX_SIMULATE and OUTBOX_SMTP_URL contradict each other; remove the one that is not meant."
    if settings.smtp_url_2 and not settings.smtp_url:
        yield "OUTBOX_SMTP_URL_2 is set without OUTBOX_SMTP_URL; name the first relay too."
    if settings.smtp_burst and not settings.smtp_rate:
        yield "OUTBOX_SMTP_BURST is set without OUTBOX_SMTP_RATE, so nothing is limited; set the rate too."
    if settings.smtp_burst_2 and not settings.smtp_rate_2:
        yield "OUTBOX_SMTP_BURST_2 is set without OUTBOX_SMTP_RATE_2; set the second relay's rate too."
    if settings.smtp_rate_2 and not settings.smtp_url_2:
        yield "OUTBOX_SMTP_RATE_2 is set without OUTBOX_SMTP_URL_2; name the second relay too, or remove it."
    if settings.smtp_tls.startswith("none") and _scheme(settings.smtp_url) == "smtps":
        yield "OUTBOX_SMTP_TLS says none but OUTBOX_SMTP_URL says smtps; change one of them."
    if settings.smtp_password and not _user(settings):
        yield "OUTBOX_SMTP_PASSWORD is set without a user; set OUTBOX_SMTP_USER."
    if settings.wakeup == "notify" and (settings.database_url or "").startswith("sqlite"):
        yield (
            "OUTBOX_WAKEUP=notify needs PostgreSQL, and OUTBOX_DATABASE_URL names SQLite; remove OUTBOX_WAKEUP: on "
            "SQLite a worker polls, and producers in its own process wake it."
        )
    if settings.console_timeout > timedelta(hours=1):
        yield "OUTBOX_CONSOLE_TIMEOUT is longer than an hour, so it limits nothing; shorten it."
    yield from _proxies(settings)
    yield from _positive(settings)


def _proxies(settings: Settings) -> Iterator[str]:
    """Believed from anybody, a forwarded address is whatever its sender likes."""
    if settings.proxies and not settings.proxy_peers:
        yield (
            "OUTBOX_PROXIES is set without OUTBOX_PROXY_PEERS, so anybody could claim any address; "
            "name the addresses from which your proxy connects, such as 127.0.0.1."
        )
    if settings.proxy_peers and not settings.proxies:
        yield (
            "OUTBOX_PROXY_PEERS is set without OUTBOX_PROXIES, so nothing is believed; say how many proxies there are."
        )


def _positive(settings: Settings) -> Iterator[str]:
    for attribute in (
        "smtp_timeout",
        "smtp_final_timeout",
        "handover_limit",
        "cycle",
        "max_message",
    ):
        if getattr(settings, attribute) <= 0:
            yield f"OUTBOX_{attribute.upper()} must be more than 0; give a longer time or larger size."


def _missing(settings: Settings, roles: tuple[Role, ...]) -> Iterator[str]:
    if settings.database_url is None:
        yield (
            "OUTBOX_DATABASE_URL is not set; set it to the database's URL, "
            "or OUTBOX_ENV=development to try things out on SQLite here."
        )
    if Role.PRODUCER not in roles and Role.WORKER not in roles:
        return
    if settings.key_ring is None:
        yield "OUTBOX_KEY_RING is not set; name the key ring's file (`outbox-admin keys generate` makes one)."
    if settings.sender is None:
        yield "OUTBOX_SENDER is not set; set the From address, such as `Shop <no-reply@shop.example>`."


def _database(settings: Settings) -> Iterator[str]:
    parts = urlsplit(settings.database_url or "")
    if not parts.scheme.startswith("postgres") or _is_local(parts.hostname):
        return
    if "sslmode" not in parse_qs(parts.query):
        yield (
            "OUTBOX_DATABASE_URL reaches PostgreSQL over the network without saying how it is protected; "
            "add `sslmode=verify-full` (or, knowingly, another sslmode)."
        )


def _relay(settings: Settings) -> Iterator[str]:
    if settings.smtp_url is None and not settings.simulate:
        yield (
            "OUTBOX_SMTP_URL is not set, so mail would be marked as sent and reach nobody; set the relay, "
            "or OUTBOX_SIMULATE=1 if that is what you want."
        )
    if settings.redirect_to is not None:
        yield (
            "OUTBOX_REDIRECT_TO would send every mail of production to one address and count it as sent; "
            "remove it, or set OUTBOX_ENV=test where real recipients must not be reached."
        )
    for name, url in (
        ("OUTBOX_SMTP_URL", settings.smtp_url),
        ("OUTBOX_SMTP_URL_2", settings.smtp_url_2),
    ):
        if url is None or _scheme(url) == "smtps":
            continue
        parts = urlsplit(url)
        if settings.tls in ("none", "opportunistic") and (parts.username or settings.smtp_user):
            yield (
                f"OUTBOX_SMTP_TLS={settings.tls} would let a password travel in the clear to {name}; "
                "use starttls or smtps, or remove user and password."
            )
        elif settings.smtp_tls == "none" and not _is_local(parts.hostname):
            yield (
                "OUTBOX_SMTP_TLS=none sends mail in the clear over the network; "
                "use starttls, or write OUTBOX_SMTP_TLS=none-i-understand."
            )


def _console(settings: Settings) -> Iterator[str]:
    if settings.debug:
        yield "FLASK_DEBUG is on, which opens a shell to everybody; remove it in production."
    secret = settings.console_secret or ""
    if len(secret.encode()) < 32 or any(sample in secret.lower() for sample in _SAMPLES):
        yield (
            "OUTBOX_CONSOLE_SECRET is missing, shorter than 32 characters or a sample; "
            "set it to the output of `openssl rand -base64 32`."
        )
    if not settings.hosts:
        yield "OUTBOX_PUBLIC_URL is not set; set the address under which browsers reach the console."
    public = urlsplit(settings.public_url or "")
    if public.scheme == "http" and not _is_local(public.hostname) and not settings.allow_http:
        yield (
            "OUTBOX_PUBLIC_URL is http, so passwords would travel in the clear; "
            "put TLS in front and use https, or set OUTBOX_ALLOW_HTTP=1."
        )
    if not _is_local(settings.bind[0]) and public.scheme != "https" and not settings.allow_http:
        yield (
            "OUTBOX_BIND listens beyond this machine without TLS in front; "
            "bind to 127.0.0.1, set an https OUTBOX_PUBLIC_URL, or OUTBOX_ALLOW_HTTP=1."
        )


def _scheme(url: str | None) -> str:
    return urlsplit(url or "").scheme


def _user(settings: Settings) -> str | None:
    return settings.smtp_user or urlsplit(settings.smtp_url or "").username


def _is_local(host: str | None) -> bool:
    """A loopback name or address; no host at all is a socket file."""
    if not host or host == "localhost" or host.startswith("/"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
