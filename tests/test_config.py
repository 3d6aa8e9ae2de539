"""Settings: one list, read strictly, refused in sentences."""

from __future__ import annotations

import logging
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest

from outbox_admin.config import SETTINGS, Role, Settings
from outbox_admin.errors import ConfigurationError

SECRET = "f3JmZ0wq9vB1yqk1mS7w4u8h2nC5xT6a"
WORKING = {
    "OUTBOX_DATABASE_URL": "sqlite:////var/lib/outbox/outbox.db",
    "OUTBOX_KEY_RING": "/etc/outbox/keyring.json",
    "OUTBOX_SENDER": "Shop <no-reply@shop.example>",
    "OUTBOX_SMTP_URL": "smtp://relay.example:587",
    "OUTBOX_CONSOLE_SECRET": SECRET,
    "OUTBOX_PUBLIC_URL": "https://outbox.shop.example",
}


def read(**environ: str) -> Settings:
    return Settings.from_env({f"OUTBOX_{name}": text for name, text in environ.items()})


def complaint(environ: dict[str, str], *roles: Role) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Settings.from_env(environ).require(*roles)
    return str(caught.value)


def test_the_list_and_the_fields_name_the_same_settings_in_the_same_order() -> None:
    attributes = [field.name for field in fields(Settings)]
    assert attributes == [*(setting.attribute for setting in SETTINGS), "debug", "key_ring_text"]


def test_every_setting_has_a_sentence_and_a_readable_default() -> None:
    for setting in SETTINGS:
        assert setting.sentence.endswith("."), setting.name
        for text in (setting.default, setting.in_development, setting.in_plain):
            if text is not None:
                setting.kind.read(text)


def test_a_complete_environment_satisfies_every_role_in_production() -> None:
    settings = Settings.from_env(WORKING)
    settings.require(*Role)
    assert settings.production
    assert settings.hosts == ("outbox.shop.example",)


def test_development_needs_nothing_at_all() -> None:
    settings = read(ENV="development")
    settings.require(*Role)
    assert (settings.database_url, settings.embedded_worker, settings.simulated) == (
        "sqlite:///outbox.db",
        True,
        True,
    )


def test_the_figures_of_the_design_are_the_defaults() -> None:
    settings = read()
    assert (settings.env, settings.batch, settings.cycle, settings.max_attempts) == ("production", 20, 2.0, 8)
    assert (settings.smtp_timeout, settings.handover_limit) == (15.0, 180.0)
    assert (settings.backoff_base, settings.backoff_cap, settings.backoff_jitter) == (10.0, 3600.0, 0.25)
    assert settings.lease == timedelta(minutes=5)
    assert settings.give_up_after == timedelta(days=3)
    assert (settings.keep_payload.days, settings.keep_done.days, settings.keep_dead.days) == (30, 90, 365)
    assert (settings.purge, settings.error_detail, settings.embedded_worker) == (True, True, False)
    assert (settings.max_message, settings.stop_grace, settings.bind) == (
        32 * 1024**2,
        25.0,
        ("127.0.0.1", 8025),
    )


def five(settings: Settings) -> tuple[object, ...]:
    return (
        settings.counts_channel_faults,
        settings.literal_5xx,
        settings.unknown_key_grace,
        settings.smtp_final_timeout,
        settings.window,
    )


def test_the_two_sets_of_rules_differ_in_five_settings() -> None:
    assert five(read()) == five(read(RULES="careful")) == (False, False, timedelta(hours=72), 120.0, None)
    assert five(read(RULES="plain")) == (True, True, timedelta(0), 15.0, 1)
    assert [setting.name for setting in SETTINGS if setting.in_plain is not None] == [
        "OUTBOX_SMTP_FINAL_TIMEOUT",
        "OUTBOX_BREAKER",
        "OUTBOX_5XX",
        "OUTBOX_UNKNOWN_KEY_GRACE",
        "OUTBOX_WINDOW",
    ]


@pytest.mark.parametrize(
    ("name", "careful_text", "plain_text"),
    [
        ("BREAKER", "on", "off"),
        ("5XX", "message", "literal"),
        ("UNKNOWN_KEY_GRACE", "72h", "0"),
        ("SMTP_FINAL_TIMEOUT", "120", "15"),
        ("WINDOW", "auto", "1"),
    ],
)
def test_each_of_the_five_wins_over_the_set(name: str, careful_text: str, plain_text: str) -> None:
    changed = five(read(RULES="careful", **{name: plain_text}))
    assert sum(a != b for a, b in zip(changed, five(read()), strict=True)) == 1
    changed = five(read(RULES="plain", **{name: careful_text}))
    assert sum(a != b for a, b in zip(changed, five(read(RULES="plain")), strict=True)) == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15", 15), ("15s", 15), ("0.5s", 0.5), ("5m", 300), ("72h", 259200), ("3d", 259200), ("1 h", 3600)],
)
def test_durations(text: str, seconds: float) -> None:
    assert read(KEEP_DONE=text).keep_done == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "0", "no"])
def test_an_empty_value_is_no_value(text: str) -> None:
    assert read(SMTP_USER="", ENV="test").smtp_user is None
    assert read(PURGE=text, ENV="test").purge is (text == "")


@pytest.mark.parametrize("text", ["-1", "5 minutes", "five", "1e3", "٣d", "1w", "99999999999999d", "36526d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    assert complaint({"OUTBOX_LEASE": text}).startswith("OUTBOX_LEASE is ")


@pytest.mark.parametrize(
    ("text", "octets"), [("32MiB", 33554432), ("256KiB", 262144), ("7", 7), ("1 GiB", 2**30)]
)
def test_sizes(text: str, octets: int) -> None:
    assert read(MAX_MESSAGE=text).max_message == octets


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("MAX_MESSAGE", "32MB"),
        ("BATCH", "0"),
        ("BATCH", "two"),
        ("BATCH", "²"),
        ("LANES", "257"),
        ("PURGE", "2"),
        ("BACKOFF_JITTER", "1.5"),
        ("BACKOFF_JITTER", "nan"),
        ("WINDOW", "0"),
        ("BREAKER", "true"),
        ("ENV", "prod"),
        ("BIND", "8025"),
        ("BIND", "127.0.0.1:99999"),
        ("SMTP_URL", "relay.example:587"),
        ("SMTP_URL", "http://relay.example"),
        ("SMTP_URL", "smtp://relay.example:port"),
        ("SMTP_URL", "smtp://shop:pass/word@relay.example"),
        ("SMTP_URL", "smtp://[::1"),
        ("PUBLIC_URL", "outbox.example"),
        ("CYCLE", "0"),
    ],
)
def test_a_value_that_is_not_right_is_named_and_never_repeated(name: str, text: str) -> None:
    sentence = complaint({f"OUTBOX_{name}": text})
    assert sentence.startswith(f"OUTBOX_{name} ")
    assert len(text) < 5 or text.rpartition(":")[2] not in sentence


def test_every_fault_is_told_at_once() -> None:
    sentences = complaint({"OUTBOX_LEASE": "x", "OUTBOX_BATCH": "y", "OUTBOX_NONSENSE": "z"}).splitlines()
    assert len(sentences) == 3


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("OUTBOX_SMPT_URL", "OUTBOX_SMTP_URL"),
        ("OUTBOX_BREAKR", "OUTBOX_BREAKER"),
        ("OUTBOX_LEAES", "OUTBOX_LEASE"),
    ],
)
def test_an_unknown_name_stops_the_start_and_suggests_the_right_one(wrong: str, right: str) -> None:
    assert complaint({wrong: "x"}) == f"{wrong} is no setting of outbox-admin; did you mean {right}?"


def test_an_unknown_name_like_no_other_gets_no_suggestion() -> None:
    assert "README" in complaint({"OUTBOX_COLOUR_OF_THE_SHED": "red"})


def test_names_of_others_do_not_matter() -> None:
    Settings.from_env({"TEST_OUTBOX_PG_BIN": "/usr/bin", "MY_OUTBOX_X": "1", "PATH": "/bin"})


def test_what_kubernetes_sets_is_ignored_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    noise = {
        "OUTBOX_SERVICE_HOST": "10.0.0.1",
        "OUTBOX_SERVICE_PORT": "8025",
        "OUTBOX_SERVICE_PORT_HTTP": "8025",
        "OUTBOX_PORT": "tcp://10.0.0.1:8025",
        "OUTBOX_PORT_8025_TCP": "tcp://10.0.0.1:8025",
        "OUTBOX_PORT_8025_TCP_ADDR": "10.0.0.1",
        "OUTBOX_PORT_8025_TCP_PORT": "8025",
        "OUTBOX_PORT_8025_TCP_PROTO": "tcp",
        "OUTBOX_CONSOLE_SERVICE_HOST": "10.0.0.2",
        "OUTBOX_CONSOLE_PORT": "tcp://10.0.0.2:80",
    }
    with caplog.at_level(logging.INFO, logger="outbox_admin.config"):
        Settings.from_env(noise)
    assert len(caplog.records) == 1
    assert all(name in caplog.text for name in noise)


def test_a_port_that_kubernetes_did_not_set_is_unknown() -> None:
    assert complaint({"OUTBOX_PORT": "8025"}).startswith("OUTBOX_PORT is no setting")


def test_each_secret_may_come_from_a_file(tmp_path: Path) -> None:
    secrets = [setting for setting in SETTINGS if setting.secret]
    assert [setting.attribute for setting in secrets] == [
        "database_url",
        "smtp_url",
        "smtp_url_2",
        "smtp_password",
        "console_secret",
        "metrics_token",
    ]
    file = tmp_path / "secret"
    for setting in secrets:
        text = "smtp://user:pass@relay.example" if "url" in setting.attribute else SECRET
        file.write_text(text + "\n")
        environ = {"OUTBOX_SMTP_USER": "shop", "OUTBOX_SMTP_URL": "smtp://relay.example"}
        environ.pop(setting.name, None)
        settings = Settings.from_env(environ | {setting.name + "_FILE": str(file)})
        assert getattr(settings, setting.attribute) == text


def test_a_secret_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    sentence = complaint({"OUTBOX_SMTP_PASSWORD_FILE": str(tmp_path / "gone")})
    assert "OUTBOX_SMTP_PASSWORD_FILE" in sentence
    assert "No such file" in sentence


def test_a_secret_given_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("x")
    environ = {"OUTBOX_METRICS_TOKEN": "x", "OUTBOX_METRICS_TOKEN_FILE": str(tmp_path / "s")}
    assert "both set" in complaint(environ)


def test_what_is_no_secret_has_no_file() -> None:
    assert "no setting" in complaint({"OUTBOX_BATCH_FILE": "/etc/batch"})


def test_no_secret_is_in_the_repr_or_in_a_complaint() -> None:
    environ = WORKING | {
        "OUTBOX_SMTP_URL": "smtp://shop:hunter2@relay.example",
        "OUTBOX_SMTP_USER": "shop",
        "OUTBOX_SMTP_PASSWORD": "hunter2",
        "OUTBOX_METRICS_TOKEN": "hunter2",
        "OUTBOX_DATABASE_URL": "postgresql://outbox:hunter2@db.example/outbox",
    }
    settings = Settings.from_env(environ)
    assert "hunter2" not in repr(settings)
    assert SECRET not in repr(settings)
    assert "hunter2" not in complaint(environ, *Role)


def test_the_lease_must_outlast_a_hand_over_by_a_minute() -> None:
    assert "OUTBOX_HANDOVER_LIMIT" in complaint({"OUTBOX_LEASE": "240s"})
    read(LEASE="241s")


def test_contradictions_are_refused_everywhere() -> None:
    for environ, word in [
        ({"SMTP_FINAL_TIMEOUT": "181"}, "OUTBOX_SMTP_FINAL_TIMEOUT"),
        ({"WAKEUP": "notify", "DATABASE_URL": "sqlite:///outbox.db"}, "OUTBOX_WAKEUP"),
        ({"BACKOFF_CAP": "5"}, "OUTBOX_BACKOFF_CAP"),
        ({"SIMULATE": "1", "SMTP_URL": "smtp://relay.example"}, "OUTBOX_SIMULATE"),
        ({"SMTP_URL_2": "smtp://relay.example"}, "OUTBOX_SMTP_URL_2"),
        ({"SMTP_URL": "smtps://relay.example", "SMTP_TLS": "none"}, "OUTBOX_SMTP_TLS"),
        ({"SMTP_URL": "smtp://relay.example", "SMTP_PASSWORD": "x"}, "OUTBOX_SMTP_USER"),
    ]:
        assert word in complaint(
            {"OUTBOX_ENV": "development"} | {f"OUTBOX_{k}": v for k, v in environ.items()}
        )


@pytest.mark.parametrize(
    ("changes", "role", "named"),
    [
        ({"OUTBOX_DATABASE_URL": ""}, Role.CONSOLE, "OUTBOX_DATABASE_URL"),
        ({"OUTBOX_KEY_RING": ""}, Role.WORKER, "OUTBOX_KEY_RING"),
        ({"OUTBOX_KEY_RING": ""}, Role.PRODUCER, "OUTBOX_KEY_RING"),
        ({"OUTBOX_SENDER": ""}, Role.PRODUCER, "OUTBOX_SENDER"),
        ({"OUTBOX_SMTP_URL": ""}, Role.WORKER, "OUTBOX_SIMULATE=1"),
        ({"OUTBOX_SMTP_TLS": "none"}, Role.WORKER, "none-i-understand"),
        ({"OUTBOX_REDIRECT_TO": "test@dev.example"}, Role.WORKER, "OUTBOX_REDIRECT_TO"),
        (
            {"OUTBOX_SMTP_TLS": "opportunistic", "OUTBOX_SMTP_USER": "shop"},
            Role.WORKER,
            "password travel in the clear",
        ),
        ({"OUTBOX_SMTP_TLS": "none-i-understand", "OUTBOX_SMTP_USER": "shop"}, Role.WORKER, "in the clear"),
        ({"OUTBOX_DATABASE_URL": "postgresql://db.example/outbox"}, Role.WORKER, "sslmode=verify-full"),
        ({"OUTBOX_CONSOLE_SECRET": ""}, Role.CONSOLE, "openssl rand -base64 32"),
        ({"OUTBOX_CONSOLE_SECRET": "short"}, Role.CONSOLE, "OUTBOX_CONSOLE_SECRET"),
        ({"OUTBOX_CONSOLE_SECRET": "change-me-change-me-change-me-change-me"}, Role.CONSOLE, "sample"),
        ({"OUTBOX_PUBLIC_URL": ""}, Role.CONSOLE, "OUTBOX_PUBLIC_URL"),
        ({"OUTBOX_PUBLIC_URL": "http://outbox.shop.example"}, Role.CONSOLE, "OUTBOX_ALLOW_HTTP=1"),
        (
            {"OUTBOX_BIND": "0.0.0.0:80", "OUTBOX_PUBLIC_URL": "http://localhost"},
            Role.CONSOLE,
            "OUTBOX_BIND",
        ),
        ({"FLASK_DEBUG": "1"}, Role.CONSOLE, "FLASK_DEBUG"),
    ],
)
def test_production_refuses_to_start_with_one_sentence(
    changes: dict[str, str], role: Role, named: str
) -> None:
    sentence = complaint(WORKING | changes, role)
    assert named in sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")


@pytest.mark.parametrize(
    ("changes", "role"),
    [
        ({"OUTBOX_SMTP_URL": "", "OUTBOX_SIMULATE": "1"}, Role.WORKER),
        ({"OUTBOX_SMTP_TLS": "none-i-understand"}, Role.WORKER),
        ({"OUTBOX_SMTP_TLS": "none", "OUTBOX_SMTP_URL": "smtp://127.0.0.1:25"}, Role.WORKER),
        ({"OUTBOX_SMTP_USER": "shop", "OUTBOX_SMTP_PASSWORD": "x"}, Role.WORKER),
        ({"OUTBOX_SMTP_URL": "smtps://shop:x@relay.example"}, Role.WORKER),
        ({"OUTBOX_DATABASE_URL": "postgresql://db.example/outbox?sslmode=require"}, Role.WORKER),
        ({"OUTBOX_DATABASE_URL": "postgresql:///outbox"}, Role.WORKER),
        ({"OUTBOX_PUBLIC_URL": "http://outbox.shop.example", "OUTBOX_ALLOW_HTTP": "1"}, Role.CONSOLE),
        ({"OUTBOX_PUBLIC_URL": "http://127.0.0.1:8025"}, Role.CONSOLE),
        ({"OUTBOX_PUBLIC_URL": "", "OUTBOX_TRUSTED_HOSTS": "a.example, b.example"}, Role.CONSOLE),
        ({"OUTBOX_BIND": "0.0.0.0:80"}, Role.CONSOLE),
        ({"OUTBOX_KEY_RING": "", "OUTBOX_SENDER": "", "OUTBOX_SMTP_URL": ""}, Role.CONSOLE),
    ],
)
def test_what_production_accepts(changes: dict[str, str], role: Role) -> None:
    Settings.from_env(WORKING | changes).require(role)


@pytest.mark.parametrize(
    ("ring", "more", "word"),
    [
        ("env:RING", {}, "RING, which is not set"),
        ("cred:ring", {}, "CREDENTIALS_DIRECTORY"),
        ("cred:../ring", {"CREDENTIALS_DIRECTORY": "/run/credentials/outbox.service"}, "name alone"),
    ],
)
def test_a_key_ring_that_is_nowhere_is_refused(ring: str, more: dict[str, str], word: str) -> None:
    assert word in complaint({**WORKING, "OUTBOX_KEY_RING": ring, **more})


@pytest.mark.parametrize("sender", ["Kiosk", "Kiosk <no-reply>", "a@shop.example, b@shop.example"])
def test_a_sender_that_is_no_address_stops_the_start(sender: str) -> None:
    found = complaint({**WORKING, "OUTBOX_SENDER": sender})
    assert "OUTBOX_SENDER" in found
    assert sender not in found


def test_e28_mail_is_redirected_outside_production_alone() -> None:
    environ = {**WORKING, "OUTBOX_REDIRECT_TO": "Test@Dev.Example", "OUTBOX_ENV": "test"}
    settings = Settings.from_env(environ)
    settings.require(*Role)
    assert settings.redirect_to == "Test@dev.example"
    assert "OUTBOX_ENV=test" in complaint({**environ, "OUTBOX_ENV": "production"}, Role.WORKER)


@pytest.mark.parametrize("address", ["nobody", "a@dev.example, b@dev.example", "Box <a@dev.example>"])
def test_a_redirect_to_what_is_no_address_stops_the_start(address: str) -> None:
    found = complaint({**WORKING, "OUTBOX_ENV": "test", "OUTBOX_REDIRECT_TO": address})
    assert "OUTBOX_REDIRECT_TO" in found
    assert address not in found


def test_proxies_and_their_peers_are_given_together() -> None:
    assert Settings.from_env(WORKING).proxies == 0
    both = {"OUTBOX_PROXIES": "1", "OUTBOX_PROXY_PEERS": "127.0.0.1, 10.0.0.0/8,unix"}
    assert Settings.from_env(WORKING | both).proxy_peers == ("127.0.0.1", "10.0.0.0/8", "unix")
    assert "OUTBOX_PROXY_PEERS" in complaint(WORKING | {"OUTBOX_PROXIES": "1"})
    assert "OUTBOX_PROXIES" in complaint(WORKING | {"OUTBOX_PROXY_PEERS": "127.0.0.1"})


@pytest.mark.parametrize("peers", ["proxy.example", "10.0.0.1/8", ",", "10.0.0.0/8;127.0.0.1"])
def test_peers_that_are_no_networks_stop_the_start(peers: str) -> None:
    assert "OUTBOX_PROXY_PEERS" in complaint(WORKING | {"OUTBOX_PROXIES": "1", "OUTBOX_PROXY_PEERS": peers})
