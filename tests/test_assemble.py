"""What the settings become."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from outbox_admin import ConfigurationError, KeyRing, assemble
from outbox_admin.config import Settings
from outbox_admin.delivery.routes import Auth, Tls
from outbox_admin.web.settings import of_settings


@pytest.fixture
def environ(tmp_path: Path, sqlite_url: str) -> dict[str, str]:
    KeyRing.generate().write(tmp_path / "keyring.json")
    return {
        "OUTBOX_ENV": "test",
        "OUTBOX_DATABASE_URL": sqlite_url,
        "OUTBOX_KEY_RING": str(tmp_path / "keyring.json"),
        "OUTBOX_SENDER": "Shop <no-reply@shop.example>",
    }


def settings(environ: dict[str, str], **changes: str) -> Settings:
    return Settings.from_env(environ | {f"OUTBOX_{name.upper()}": text for name, text in changes.items()})


def test_no_relay_is_no_route(environ: dict[str, str]) -> None:
    assert assemble.routes(settings(environ)) == ()


def test_a_worker_says_where_its_mail_goes(environ: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "outbox_admin.delivery")
    assemble.worker(settings(environ))
    assert "no relay is set (OUTBOX_SMTP_URL)" in caplog.text
    assemble.worker(settings(environ, smtp_url="smtp://relay.example", smtp_user="u", smtp_password="s3cret"))
    assert "sends to relay.example:587 (starttls)" in caplog.text
    assert "s3cret" not in caplog.text


def test_two_relays_are_two_routes_in_their_order(environ: dict[str, str]) -> None:
    made = settings(
        environ,
        smtp_url="smtp://relay.example:587",
        smtp_user="outbox",
        smtp_password="a b/c",
        smtp_url_2="smtps://shop:pass%20word@second.example",
        smtp_timeout="7s",
        handover_limit="170s",
    )
    first, second = assemble.routes(made)
    assert (first.name, first.host, first.port, first.tls) == ("primary", "relay.example", 587, Tls.STARTTLS)
    assert (first.username, first.password, first.reply_timeout) == ("outbox", "a b/c", 7.0)
    assert (second.name, second.tls, second.port) == ("secondary", Tls.SMTPS, 465)
    assert (second.username, second.password, second.handover_limit) == ("shop", "pass word", 170.0)
    assert "a b/c" not in repr(first)


def test_with_xoauth2_the_password_is_the_token(environ: dict[str, str]) -> None:
    [route] = assemble.routes(
        settings(
            environ, smtp_url="smtp://r.example", smtp_user="u", smtp_password="tok", smtp_auth="xoauth2"
        )
    )
    assert route.auth is Auth.XOAUTH2
    assert route.token is not None
    assert route.token() == "tok"


def test_the_two_sets_of_rules(environ: dict[str, str]) -> None:
    careful, plain = (assemble.rules(settings(environ, rules=name)) for name in ("careful", "plain"))
    assert (careful.breaker, careful.policy.counts_channel_faults) == (True, False)
    assert (careful.literal_5xx, careful.window) == (False, None)
    assert careful.unknown_key_grace == timedelta(hours=72)
    assert (plain.breaker, plain.policy.counts_channel_faults) == (False, True)
    assert (plain.literal_5xx, plain.window, plain.unknown_key_grace) == (True, 1, timedelta(0))


def test_a_single_setting_wins_over_the_set(environ: dict[str, str]) -> None:
    mixed = assemble.rules(settings(environ, rules="plain", breaker="on", window="auto"))
    assert (mixed.breaker, mixed.literal_5xx, mixed.window) == (True, True, None)


def test_production_refuses_to_simulate_by_accident(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"OUTBOX_SMTP_URL.*OUTBOX_SIMULATE=1"):
        assemble.parts(settings(environ, env="production"))


def test_an_embedded_console_checks_its_worker_at_once(environ: dict[str, str]) -> None:
    wanted = settings(environ, embedded_worker="1", key_ring="/nowhere/keyring.json")
    with pytest.raises(ConfigurationError, match=r"keyring\.json"):
        assemble.console(wanted)


def test_processes_of_one_database_agree_on_a_secret_in_development(environ: dict[str, str]) -> None:
    def secret(**changes: str) -> str | bytes:
        return of_settings(settings(environ, env="development", **changes), notice=None, version="").secret

    assert secret() == secret()
    assert secret() != secret(database_url="sqlite:///elsewhere.db")


def test_a_console_can_be_loaded_while_the_database_is_away(environ: dict[str, str], tmp_path: Path) -> None:
    away = settings(environ, database_url="postgresql://outbox@127.0.0.1:1/outbox", embedded_worker="0")
    app = assemble.console(away, notice="Only a test.")
    assert app.test_client().get("/healthz").status_code == 200


def test_an_engine_never_prints_parameters(environ: dict[str, str]) -> None:
    engine = assemble.engine(settings(environ))
    with pytest.raises(sa.exc.DBAPIError) as caught, engine.begin() as db:
        db.execute(sa.text("SELECT :address FROM nowhere"), {"address": "jane@example.com"})
    assert "jane" not in str(caught.value)
    engine.dispose()


def test_a_key_ring_may_be_a_credential_of_systemd(environ: dict[str, str], tmp_path: Path) -> None:
    found = settings(environ | {"CREDENTIALS_DIRECTORY": str(tmp_path)}, key_ring="cred:keyring.json")
    expected = KeyRing.load(environ["OUTBOX_KEY_RING"]).usable_ids
    assert assemble.ring(found).usable_ids == expected


@pytest.mark.parametrize("variable", ["RING", "OUTBOX_RING"])
def test_a_key_ring_may_stand_in_a_variable(environ: dict[str, str], variable: str) -> None:
    text = KeyRing.load(environ["OUTBOX_KEY_RING"]).to_text()
    found = settings(environ | {variable: text}, key_ring=f"env:{variable}")
    assert assemble.ring(found).usable_ids == KeyRing.load(environ["OUTBOX_KEY_RING"]).usable_ids
    assert assemble.outbox(found) is not None
    assert "material" not in repr(found)


@pytest.mark.postgresql
@pytest.mark.parametrize(("own", "standstill"), [("0", "15s"), ("2s", "2s")])
def test_a_worker_bounds_its_waits_in_each_transaction_where_the_server_does_not(
    environ: dict[str, str], postgres_url: str, own: str, standstill: str
) -> None:
    limited = f"{postgres_url}?options=-c%20idle_in_transaction_session_timeout%3D{own}"
    engine = assemble.parts(settings(environ, database_url=limited)).engine
    asked = "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')"
    found = []
    for _ in range(2):
        with engine.begin() as db:
            found.append(tuple(db.execute(sa.text(asked)).one()))
    engine.dispose()
    assert found == [("5s", standstill)] * 2
