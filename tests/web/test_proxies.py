"""What a proxy says of its client is believed from the proxies that were named, and from nobody else."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa
from flask import Flask

from tests.web.conftest import SETTINGS, Visitor
from tests.web.population import Population
from tests.web.reading import field_of


def noted(app: Flask, population: Population, *tries: tuple[str, str]) -> list[str]:
    """The clients' addresses in the audit log after one try to sign in by each (peer, forwarded)."""
    population.user("alice", "viewer")
    for peer, forwarded in tries:
        visitor = Visitor(app.test_client())
        extra = {"environ_overrides": {"REMOTE_ADDR": peer}, "headers": {"X-Forwarded-For": forwarded}}
        visitor.csrf = field_of(visitor.get("/login", **extra).get_data(as_text=True), "csrf")
        visitor.post("/login", {"name": "alice", "password": "wrong"}, **extra)
    return [str(entry.address) for entry in population.audits("sign-in")]


def test_s37_a_forwarded_address_is_believed_from_named_peers_only(
    configured: Callable[..., Flask], population: Population
) -> None:
    app = configured(proxies=1, proxy_peers=("10.0.0.0/8", "unix"))
    client = "203.0.113.9"
    assert noted(
        app,
        population,
        ("10.1.2.3", client),
        ("10.1.2.3", f"198.51.100.1, {client}"),  # what the client itself claimed stands left of it
        ("::ffff:10.1.2.3", client),
        ("192.0.2.7", client),  # not a proxy of ours
        ("", client),  # over a socket file
    ) == [client, client, client, "192.0.2.7", client]


def test_two_proxies_add_one_value_each(configured: Callable[..., Flask], population: Population) -> None:
    app = configured(proxies=2, proxy_peers=("127.0.0.1",))
    said = "198.51.100.1, 203.0.113.9, 10.9.9.9"
    assert noted(app, population, ("127.0.0.1", said)) == ["203.0.113.9"]


def test_a_prefix_that_the_proxy_names_stands_before_every_link(
    configured: Callable[..., Flask], population: Population, engine: sa.Engine
) -> None:
    population.user("alice", "viewer")
    app = configured(proxies=1, proxy_peers=("127.0.0.1",))
    headers = {"X-Forwarded-Prefix": "/mail"}
    answer = app.test_client().get("/messages", headers=headers)
    assert answer.headers["Location"].startswith("/mail/login")


def test_proxies_without_peers_are_no_settings() -> None:
    from dataclasses import replace

    with pytest.raises(ValueError, match="proxy_peers"):
        replace(SETTINGS, proxies=1)
