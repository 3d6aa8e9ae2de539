"""A route says where and how; one that would give a password away cannot be made."""

import pytest

from outbox_admin.delivery.routes import Auth, Route, Tls
from outbox_admin.errors import ConfigurationError


def test_a_url_gives_host_port_and_login() -> None:
    route = Route.from_url("smtp://user%40example.com:p%3Aa%2Fss@relay.example:2525")
    assert (route.host, route.port, route.tls) == ("relay.example", 2525, Tls.STARTTLS)
    assert (route.username, route.password) == ("user@example.com", "p:a/ss")


@pytest.mark.parametrize(
    ("url", "tls", "port"),
    [
        ("smtp://relay.example", None, 587),
        ("smtp://relay.example", "opportunistic", 25),
        ("smtp://relay.example", "none", 25),
        ("smtps://relay.example", None, 465),
        ("smtps://relay.example", "starttls", 465),
        ("smtp://[::1]", "none", 25),
    ],
)
def test_the_port_follows_the_protection(url: str, tls: str | None, port: int) -> None:
    assert Route.from_url(url, tls=tls).port == port


def test_smtps_in_the_url_wins_over_a_weaker_setting() -> None:
    assert Route.from_url("smtps://relay.example", tls="none").tls is Tls.SMTPS


def test_options_win_over_the_url_and_none_means_not_given() -> None:
    route = Route.from_url("smtp://a:b@relay.example", username="c", password=None, reply_timeout=5)
    assert (route.username, route.password, route.reply_timeout) == ("c", "b", 5)


def test_the_password_is_in_no_representation_and_no_error() -> None:
    route = Route.from_url("smtp://user:hunter2@relay.example")
    assert "hunter2" not in repr(route)
    with pytest.raises(ConfigurationError) as caught:
        Route.from_url("smtp://user:hunter2@relay.example", tls="none")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "relay.example",
        "http://relay.example",
        "smtp://",
        "smtp://relay.example:0x19",
        "smtp://relay.example:99999",
        "smtp://relay.example/inbox",
        "smtp://relay.example?x=1",
        "smtp://bad host",
        "smtp://.example",
        "smtp://user@relay.example",
    ],
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        Route.from_url(url)


@pytest.mark.parametrize("tls", [Tls.NONE, Tls.OPPORTUNISTIC])
def test_no_password_without_protection(tls: Tls) -> None:
    with pytest.raises(ConfigurationError, match="verified TLS"):
        Route("r", "relay.example", 25, tls=tls, username="u", password="p")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_a_password_to_the_loopback_address_needs_tls_none_said_aloud(host: str) -> None:
    assert Route("r", host, 25, tls=Tls.NONE, username="u", password="p").is_loopback
    with pytest.raises(ConfigurationError):
        Route("r", host, 25, tls=Tls.OPPORTUNISTIC, username="u", password="p")


@pytest.mark.parametrize(
    "options",
    [
        {"username": "u"},
        {"password": "p"},
        {"username": "u\r\nMAIL", "password": "p"},
        {"username": "u", "password": "p\0"},
        {"username": "u", "password": "p", "auth": "xoauth2"},
        {"auth": "cram-md5"},
        {"tls": "maybe"},
        {"helo": "two words"},
        {"helo": "host\r\nMAIL FROM:<x@example.com>"},
        {"helo": "host.example\n"},
        {"reply_timeout": 0},
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        Route("r", "relay.example", 587, **options)  # type: ignore[arg-type]


def test_words_are_taken_for_choices() -> None:
    route = Route("r", "relay.example", 587, tls="smtps", auth="login", username="u", password="p")  # type: ignore[arg-type]
    assert (route.tls, route.auth) == (Tls.SMTPS, Auth.LOGIN)
