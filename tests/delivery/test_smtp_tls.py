"""Section E of the cases and the login, at the session: nothing is given away on an unprotected link."""

import base64
import ssl
import warnings
from collections.abc import Callable

import pytest

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break, Reply
from outbox_admin.core.lifecycle import Accepted, ChannelFault
from outbox_admin.delivery.routes import Route, Tls
from outbox_admin.delivery.smtp import SmtpSession
from outbox_admin.errors import ConfigurationError
from tests.support.certificates import Authority, ServerCertificate
from tests.support.relay import (
    Action,
    Relay,
    Script,
    close,
    handshake,
    raw,
    reset,
    silence,
    then,
    trickle,
    wait,
)
from tests.support.sessions import QUICK, deliver, outcome_of, session_to
from tests.support.smtp_peer import SmtpPeer

LOGIN = {"username": "outbox", "password": "correct horse"}
CONFIG = ChannelFault

Secured = Callable[..., Relay]


@pytest.fixture
def secured(authority: Authority) -> Secured:
    """A relay that offers STARTTLS with the good certificate."""

    def build(*scripts: Script, offer: tuple[str, ...] = ("AUTH PLAIN LOGIN",), **options: object) -> Relay:
        return Relay(*scripts, offer=offer, tls=authority.good.context(), **options)  # type: ignore[arg-type]

    return build


@pytest.fixture
def safe(authority: Authority) -> dict[str, object]:
    """What a session needs to trust the good certificate and log in."""
    return {"tls": Tls.STARTTLS, "ca_file": str(authority.ca_file), **LOGIN}


def test_login_and_message_go_through_tls_only(secured: Secured, safe: dict[str, object]) -> None:
    with secured() as relay, session_to(relay, **safe) as session:
        assert outcome_of(deliver(session)) is Accepted
    verbs = relay.connections[0].verbs()
    assert verbs == ["EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL", "RCPT", "DATA"]


def test_smtps_speaks_tls_from_the_first_octet(secured: Secured, safe: dict[str, object]) -> None:
    options = {**safe, "tls": Tls.SMTPS}
    with secured(implicit=True) as relay, session_to(relay, **options) as session:
        assert outcome_of(deliver(session)) is Accepted
    assert relay.connections[0].verbs()[:3] == ["EHLO", "AUTH", "MAIL"]


def test_a_large_message_arrives_whole_through_tls(secured: Secured, safe: dict[str, object]) -> None:
    content = (b"x" * 70 + b"\r\n") * 50_000
    with secured() as relay, session_to(relay, **safe) as session:
        assert outcome_of(deliver(session, content)) is Accepted
    assert relay.messages[0].content == content


def test_oc_32_a_connection_lost_within_tls_is_unknown_too(secured: Secured, safe: dict[str, object]) -> None:
    with secured({"DOT": close()}) as relay, session_to(relay, **safe) as session:
        event = deliver(session)
    assert isinstance(event, Break)
    assert (event.phase, event.kind, event.begun) == (Phase.DOT, Kind.NETWORK, True)


@pytest.mark.parametrize("offer", [["AUTH PLAIN"], ["AUTH PLAIN", "XXXXXXXA"]])
def test_oc_37_required_and_not_offered(offer: list[str], safe: dict[str, object]) -> None:
    with Relay(offer=offer) as relay, session_to(relay, **safe) as session:
        event = deliver(session)
    assert isinstance(event, Break)
    assert (event.phase, event.kind, outcome_of(event)) == (Phase.TLS, Kind.TLS_UNAVAILABLE, CONFIG)
    assert relay.verbs == ["EHLO"]


@pytest.mark.parametrize("reply", ["454 4.7.0 not now", "501 what"])
def test_required_and_refused(secured: Secured, safe: dict[str, object], reply: str) -> None:
    with secured({"STARTTLS": reply}) as relay, session_to(relay, **safe) as session:
        event = deliver(session)
    assert isinstance(event, Reply)
    assert (event.phase, outcome_of(event)) == (Phase.TLS, CONFIG)
    assert relay.verbs == ["EHLO", "STARTTLS"]


@pytest.mark.parametrize("fault", ["self_signed", "expired", "wrong_host", "unknown_authority"])
def test_oc_38_a_certificate_that_does_not_hold(
    authority: Authority, safe: dict[str, object], fault: str
) -> None:
    certificate: ServerCertificate = getattr(authority, fault)
    for options in ({"implicit": False}, {"implicit": True}):
        tls = Tls.SMTPS if options["implicit"] else Tls.STARTTLS
        with (
            Relay(tls=certificate.context(), offer=["AUTH PLAIN"], **options) as relay,
            session_to(relay, **{**safe, "tls": tls}) as session,
        ):
            event = deliver(session)
            assert not session.connected
        assert isinstance(event, Break)
        assert (event.phase, event.kind, outcome_of(event)) == (Phase.TLS, Kind.TLS_VERIFY, CONFIG)
        assert "verify failed" in event.raw
        assert "AUTH" not in relay.verbs
        assert relay.verbs.count("EHLO") == (0 if options["implicit"] else 1)


def test_oc_38_without_the_authority_nothing_is_sent(secured: Secured) -> None:
    with secured() as relay, session_to(relay, tls=Tls.STARTTLS, **LOGIN) as session:
        event = deliver(session)
    assert isinstance(event, Break)
    assert event.kind is Kind.TLS_VERIFY
    assert relay.verbs == ["EHLO", "STARTTLS"]


def test_oc_38_only_an_old_version_of_tls(authority: Authority, safe: dict[str, object]) -> None:
    old = authority.good.context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1
    old.set_ciphers("DEFAULT@SECLEVEL=0")
    with Relay(tls=old) as relay, session_to(relay, **safe) as session:
        event = deliver(session)
    assert isinstance(event, Break)
    assert (event.phase, outcome_of(event)) == (Phase.TLS, CONFIG)
    assert event.kind in (Kind.TLS_UNAVAILABLE, Kind.NETWORK)
    assert relay.verbs == ["EHLO", "STARTTLS"]


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        (then("220 go", silence()), Kind.TIMEOUT),
        (then("220 go", wait(QUICK / 4), trickle(b"\x16", every=QUICK / 4)), Kind.TIMEOUT),
        (then("220 go", close()), Kind.NETWORK),
        (then("220 go", reset()), Kind.NETWORK),
    ],
)
def test_oc_25_a_handshake_that_goes_nowhere(
    secured: Secured, safe: dict[str, object], action: Action, kind: Kind
) -> None:
    with secured({"STARTTLS": action}) as relay, session_to(relay, **safe, reply_timeout=QUICK) as session:
        event = deliver(session)
    assert isinstance(event, Break)
    assert (event.phase, outcome_of(event)) == (Phase.TLS, CONFIG)
    # One octet of a handshake record that claims to be 0x1616 long may be told to be nonsense before time is up.
    assert event.kind in (kind, Kind.TLS_UNAVAILABLE)


def test_oc_39_text_before_the_handshake_ends_the_connection(
    secured: Secured, safe: dict[str, object]
) -> None:
    injected = then(raw(b"220 go ahead\r\n250-AUTH PLAIN\r\n250 X-INJECTED\r\n"), handshake())
    with secured({"STARTTLS": injected}) as relay, session_to(relay, **safe) as session:
        event = deliver(session)
        assert not session.connected
    assert isinstance(event, Break)
    assert (event.phase, event.kind, outcome_of(event)) == (Phase.TLS, Kind.PROTOCOL, CONFIG)
    assert relay.verbs == ["EHLO", "STARTTLS"]


def test_oc_39_what_was_said_before_tls_is_forgotten(secured: Secured, safe: dict[str, object]) -> None:
    before = "250 relay.example\n250 STARTTLS\n250 SIZE 5\n250 SMTPUTF8"
    with secured({"EHLO": [before]}) as relay, session_to(relay, **safe) as session:
        assert outcome_of(deliver(session)) is Accepted
        assert session.max_size is None
    assert b"SIZE" not in bytes(relay.connections[0].octets)


def test_opportunistic_uses_tls_where_offered(secured: Secured, authority: Authority) -> None:
    options = {"tls": Tls.OPPORTUNISTIC, "ca_file": str(authority.ca_file)}
    with secured() as relay, session_to(relay, **options) as session:
        assert outcome_of(deliver(session)) is Accepted
    assert relay.connections[0].secured


@pytest.mark.parametrize("script", [{}, {"EHLO": "502 what"}])
def test_opportunistic_goes_on_in_plain_where_not_offered(script: Script) -> None:
    with Relay(script) as relay, session_to(relay, tls=Tls.OPPORTUNISTIC) as session:
        assert outcome_of(deliver(session)) is Accepted
    assert not relay.connections[0].secured


def test_opportunistic_goes_on_in_plain_where_refused(secured: Secured) -> None:
    with secured({"STARTTLS": "454 not now"}) as relay, session_to(relay, tls=Tls.OPPORTUNISTIC) as session:
        assert outcome_of(deliver(session)) is Accepted


def test_opportunistic_does_not_send_to_a_certificate_that_does_not_hold(authority: Authority) -> None:
    with (
        Relay(tls=authority.self_signed.context()) as relay,
        session_to(relay, tls=Tls.OPPORTUNISTIC) as session,
    ):
        event = deliver(session)
    assert isinstance(event, Break)
    assert event.kind is Kind.TLS_VERIFY
    assert "MAIL" not in relay.verbs


@pytest.mark.parametrize("code", [535, 454, 534, 530, 421])
def test_oc_29_one_login_attempt_for_each_connection(
    secured: Secured, safe: dict[str, object], code: int
) -> None:
    script: Script = {"AUTH": f"{code} 5.7.8 no"}
    with secured(script, offer=("AUTH PLAIN LOGIN CRAM-MD5",)) as relay, session_to(relay, **safe) as session:
        event = deliver(session)
        assert not session.connected
    assert isinstance(event, Reply)
    assert (event.phase, event.code, outcome_of(event)) == (Phase.AUTH, code, CONFIG)
    assert (relay.verbs.count("AUTH"), len(relay.connections)) == (1, 1)


@pytest.mark.parametrize("offer", [(), ("AUTH CRAM-MD5 GSSAPI",)])
def test_oc_29_no_login_that_we_speak(
    secured: Secured, safe: dict[str, object], offer: tuple[str, ...]
) -> None:
    with secured(offer=offer) as relay, session_to(relay, **safe) as session:
        event = deliver(session)
    assert isinstance(event, Break)
    assert (event.phase, event.kind, outcome_of(event)) == (Phase.AUTH, Kind.UNSUPPORTED, CONFIG)
    assert not {"AUTH", "MAIL"} & set(relay.verbs)


def _commands(relay: Relay) -> list[bytes]:
    connection = relay.connections[0]
    first = next(index for index, line in enumerate(connection.commands) if line.startswith(b"AUTH"))
    last = connection.verbs().index("MAIL") if "MAIL" in connection.verbs() else None
    return connection.commands[first:last]


def test_plain_is_preferred_and_sent_with_its_command(secured: Secured, safe: dict[str, object]) -> None:
    with secured() as relay, session_to(relay, **safe) as session:
        deliver(session)
    assert _commands(relay) == [b"AUTH PLAIN " + base64.b64encode(b"\0outbox\0correct horse")]


@pytest.mark.parametrize("offer", [("AUTH LOGIN",), ("AUTH=LOGIN",), ("auth login",)])
def test_login_where_plain_is_not_offered(
    secured: Secured, safe: dict[str, object], offer: tuple[str, ...]
) -> None:
    with secured(offer=offer) as relay, session_to(relay, **safe) as session:
        assert outcome_of(deliver(session)) is Accepted
    assert _commands(relay) == [
        b"AUTH LOGIN",
        base64.b64encode(b"outbox"),
        base64.b64encode(b"correct horse"),
    ]


def test_a_chosen_mechanism_is_the_only_one(secured: Secured, safe: dict[str, object]) -> None:
    with secured(offer=("AUTH PLAIN",)) as relay, session_to(relay, **safe, auth="login") as session:
        event = deliver(session)
    assert isinstance(event, Break)
    assert event.kind is Kind.UNSUPPORTED


def test_a_password_of_other_letters_is_sent_as_utf_8(secured: Secured, safe: dict[str, object]) -> None:
    with secured() as relay, session_to(relay, **{**safe, "password": "schlüssel"}) as session:
        deliver(session)
    assert _commands(relay) == [b"AUTH PLAIN " + base64.b64encode("\0outbox\0schlüssel".encode())]


def test_xoauth2_asks_the_hook_for_each_login(secured: Secured, safe: dict[str, object]) -> None:
    tokens = iter(["one", "two"])
    options = {**safe, "password": None, "token": lambda: next(tokens)}
    with secured(offer=("AUTH PLAIN XOAUTH2",)) as relay, session_to(relay, **options) as session:
        assert outcome_of(deliver(session)) is Accepted
        session.quit()
        assert outcome_of(deliver(session)) is Accepted
    assert _commands(relay) == [b"AUTH XOAUTH2 " + base64.b64encode(b"user=outbox\1auth=Bearer one\1\1")]
    assert base64.b64encode(b"user=outbox\1auth=Bearer two\1\1") in bytes(relay.connections[1].octets)


def test_xoauth2_fetches_the_refusal_behind_the_challenge(secured: Secured, safe: dict[str, object]) -> None:
    script: Script = {"AUTH": "334 eyJzdGF0dXMiOiI0MDEifQ==", "RESPONSE": "535 5.7.8 token expired"}
    options = {**safe, "password": None, "token": lambda: "old"}
    with secured(script, offer=("AUTH XOAUTH2",)) as relay, session_to(relay, **options) as session:
        event = deliver(session)
    assert event == Reply(Phase.AUTH, 535, "5.7.8 token expired")
    assert _commands(relay)[1:] == [b""]


def test_a_long_token_waits_for_the_relay_to_ask(secured: Secured, safe: dict[str, object]) -> None:
    options = {**safe, "password": None, "token": lambda: "t" * 2000}
    with secured(offer=("AUTH XOAUTH2",)) as relay, session_to(relay, **options) as session:
        assert outcome_of(deliver(session)) is Accepted
    command, response = _commands(relay)
    assert command == b"AUTH XOAUTH2"
    assert base64.b64decode(response).endswith(b"t" * 2000 + b"\1\1")


def test_a_hook_that_fails_is_a_fault_of_the_login(secured: Secured, safe: dict[str, object]) -> None:
    def hook() -> str:
        raise RuntimeError("secret things")

    options = {**safe, "password": None, "token": hook}
    with secured(offer=("AUTH XOAUTH2",)) as relay, session_to(relay, **options) as session:
        event = deliver(session)
    assert event == Break(Phase.AUTH, Kind.AUTH_REJECTED, "token hook: RuntimeError")
    assert isinstance(event, Break)
    assert "secret" not in event.raw


@pytest.mark.parametrize("reply", ["250 fine", "334 more", raw(b"nonsense\r\n")])
def test_only_235_is_a_login(secured: Secured, safe: dict[str, object], reply: str | Action) -> None:
    with secured({"AUTH": reply, "RESPONSE": reply}) as relay, session_to(relay, **safe) as session:
        event = deliver(session)
    assert isinstance(event, Break)
    assert (event.phase, event.kind, outcome_of(event)) == (Phase.AUTH, Kind.PROTOCOL, CONFIG)
    assert "MAIL" not in relay.verbs


def test_a_login_without_tls_to_the_loopback_address_when_asked_for() -> None:
    with Relay(offer=["AUTH PLAIN"]) as relay, session_to(relay, tls=Tls.NONE, **LOGIN) as session:
        assert outcome_of(deliver(session)) is Accepted


def test_a_ca_file_that_cannot_be_read_is_found_at_the_start() -> None:
    with pytest.raises(ConfigurationError):
        SmtpSession(Route("r", "127.0.0.1", 25, ca_file="/does/not/exist.pem"))


@pytest.mark.smtp
def test_a_foreign_server_takes_mail_with_starttls_and_login(smtp_peer: SmtpPeer) -> None:
    route = Route.from_url(smtp_peer.url(), ca_file=str(smtp_peer.ca_file))
    session = SmtpSession(route)
    content = b"Subject: Hello\r\n\r\n.dots\r\n..\r\n" + b"x" * 200_000 + b"\r\n"
    content = content.replace(b"x" * 200_000, b"\r\n".join([b"x" * 70] * 3000))
    smtp_peer.refuse_recipients["gone@example.com"] = "550 5.1.1 unknown"
    assert outcome_of(deliver(session, content)) is Accepted
    assert deliver(session, to="gone@example.com") == Reply(Phase.RCPT, 550, "5.1.1 unknown")
    assert deliver(session, to="john@example.com") == Reply(Phase.DOT, 250, "2.0.0 OK queued as PEER2")
    session.quit()
    first, second = smtp_peer.received
    assert (first.content, first.tls, first.login) == (content, True, smtp_peer.username)
    assert second.recipients == ("john@example.com",)


@pytest.mark.smtp
@pytest.mark.parametrize("auth", ["plain", "login"])
def test_a_foreign_server_refuses_a_wrong_password(smtp_peer: SmtpPeer, auth: str) -> None:
    route = Route.from_url(smtp_peer.url(), ca_file=str(smtp_peer.ca_file), password="wrong", auth=auth)
    session = SmtpSession(route)
    event = deliver(session)
    session.close()
    assert isinstance(event, Reply)
    assert (event.phase, event.code) == (Phase.AUTH, 535)
