"""Cases OC-37 to OC-42: TLS that does not hold, and connections used for more than one message. The whole engine."""

from __future__ import annotations

import asyncio
import ssl
import warnings
from datetime import timedelta
from typing import Any

import pytest

from outbox_admin.delivery.routes import Tls
from tests.cases.hardship import QUICK, WAIT, Hardship
from tests.cases.scene import each
from tests.delivery.room import Room
from tests.support.certificates import Authority
from tests.support.clock import FakeClock
from tests.support.relay import Action, Conversation, Script, close, handshake, raw, reset, silence, then

LOGIN = {"username": "outbox", "password": "correct horse"}


@pytest.fixture
def safe(authority: Authority) -> dict[str, Any]:
    """A route that trusts the test's authority and logs in."""
    return {"tls": Tls.STARTTLS, "ca_file": str(authority.ca_file), **LOGIN}


@pytest.mark.parametrize(
    "offer",
    [["AUTH PLAIN"], ["AUTH PLAIN", "XXXXXXXA"], ["AUTH PLAIN", "STARTTLSX"]],
)
def test_oc_37_starttls_that_is_not_offered_gives_nothing_away(
    room: Room, safe: dict[str, Any], offer: list[str]
) -> None:
    with Hardship(room, route=safe, offer=offer) as scene:
        rows = scene.begin(3)
        scene.play()
        scene.assert_config(*rows, scene.control, phase="tls", seen="tls_unavailable")
        assert set(scene.relay.verbs) <= {"EHLO", "QUIT"}


@pytest.mark.parametrize("reply", ["454 4.7.0 not now", "554 no"])
def test_oc_37_starttls_that_is_refused_gives_nothing_away(
    room: Room, safe: dict[str, Any], authority: Authority, reply: str
) -> None:
    with Hardship(room, {"STARTTLS": reply}, {}, route=safe, tls=authority.good.context()) as scene:
        scene.relay.offer = ["AUTH PLAIN"]
        rows = scene.begin(3)
        scene.play()
        scene.assert_config(*rows, scene.control, phase="tls")
        assert set(scene.relay.verbs) <= {"EHLO", "STARTTLS", "QUIT"}
        scene.later()
        scene.assert_sent(*rows, scene.control)


@pytest.mark.parametrize("fault", ["self_signed", "expired", "wrong_host", "unknown_authority"])
def test_oc_38_a_certificate_that_does_not_hold_gets_no_mail(
    room: Room, safe: dict[str, Any], authority: Authority, fault: str
) -> None:
    bad = getattr(authority, fault).context()
    for implicit in (False, True):
        route = safe | {"tls": Tls.SMTPS if implicit else Tls.STARTTLS}
        with Hardship(room, route=route, tls=bad, implicit=implicit, offer=["AUTH PLAIN"]) as scene:
            rows = scene.begin(3)
            scene.play()
            scene.assert_config(*rows, scene.control, phase="tls", seen="tls_verify")
            assert scene.relay.verbs == ([] if implicit else ["EHLO", "STARTTLS"])


def test_oc_38_the_right_name_under_a_trusted_authority_gets_it(
    room: Room, safe: dict[str, Any], authority: Authority
) -> None:
    for trusted in (True, False):
        route = safe if trusted else safe | {"ca_file": None}
        with Hardship(room, route=route, tls=authority.good.context(), offer=["AUTH PLAIN"]) as scene:
            rows = scene.begin(3)
            scene.play()
            if trusted:
                scene.assert_sent(*rows, scene.control)
                assert scene.relay.connections[0].secured
            else:
                scene.assert_config(*rows, scene.control, phase="tls", seen="tls_verify")


def test_oc_38_an_old_version_of_tls_gets_no_mail(
    room: Room, safe: dict[str, Any], authority: Authority
) -> None:
    old = authority.good.context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1
    old.set_ciphers("DEFAULT@SECLEVEL=0")
    with Hardship(room, route=safe, tls=old, offer=["AUTH PLAIN"]) as scene:
        rows = scene.begin(3)
        scene.play()
        scene.assert_config(*rows, scene.control, phase="tls")
        assert scene.relay.verbs == ["EHLO", "STARTTLS"]


@each(
    "injected",
    [
        b"220 go ahead\r\n250-AUTH PLAIN\r\n250 X-INJECTED\r\n",
        b"220 go ahead\r\n2",
        b"220 go ahead\r\n235 2.7.0 welcome\r\n250 ok\r\n250 ok\r\n354 go\r\n250 ok\r\n",
    ],
)
def test_oc_39_text_before_the_handshake_is_the_answer_to_nothing(
    room: Room, safe: dict[str, Any], authority: Authority, injected: bytes
) -> None:
    script: Script = {"STARTTLS": then(raw(injected), handshake())}
    with Hardship(room, script, {}, route=safe, tls=authority.good.context(), offer=["AUTH PLAIN"]) as scene:
        rows = scene.begin(3)
        scene.play()
        scene.assert_config(*rows, scene.control, phase="tls", seen="protocol")
        assert scene.relay.verbs == ["EHLO", "STARTTLS"]
        scene.later()
        scene.assert_sent(*rows, scene.control)


def test_oc_39_what_was_said_before_tls_is_forgotten(
    room: Room, safe: dict[str, Any], authority: Authority
) -> None:
    before = "250 relay.example\n250 STARTTLS\n250 SIZE 5\n250 SMTPUTF8\n250 AUTH GSSAPI"
    with Hardship(
        room, {"EHLO": [before]}, route=safe, tls=authority.good.context(), offer=["AUTH PLAIN"]
    ) as scene:
        rows = scene.begin(2)
        scene.play()
        scene.assert_sent(*rows, scene.control)
        assert b"SIZE=" not in bytes(scene.relay.connections[0].octets)


FOURTH: list[str | Action] = ["250 ok", "250 ok", "250 ok"]


@each(
    "script",
    [
        {"MAIL": [*FOURTH, then("421 4.7.0 enough", close())]},
        {"MAIL": [*FOURTH, reset()]},
        {"MAIL": [*FOURTH, "421 4.7.0 enough"]},  # and does not close
        {"DOT": ["250 ok", "250 ok", then("250 ok", close())]},
        {"DOT": ["250 ok", then("250 ok\n250 two", reset())]},
    ],
)
def test_oc_40_a_relay_that_ends_connections_costs_no_row_anything(room: Room, script: Script) -> None:
    with Hardship(room, script) as scene:
        rows = scene.begin(19)
        scene.play()
        scene.assert_sent(*rows, scene.control)
        assert {row.tries for row in room.rows()} == {1}


def test_oc_40_a_connection_that_was_closed_while_nothing_was_due_costs_nothing(room: Room) -> None:
    with Hardship(room, {"DOT": ["250 ok", "250 ok", then("250 ok", close())]}, {}) as scene:
        first = scene.begin(2)
        scene.play()
        scene.assert_sent(*first, scene.control)
        assert scene.relay.connections[0].ended.wait(60)
        room.clock.advance(seconds=10)
        second = [room.enqueue(f"{number}@example.net") for number in range(20)]
        scene.play()
        scene.assert_sent(*first, *second)
        assert scene.connections == 2


def test_oc_40_a_connection_that_went_deaf_while_nothing_was_due_costs_nothing(room: Room) -> None:
    """A firewall forgot it: nobody ever hears of its end."""
    script: Script = {"MAIL": ["250 ok", "250 ok", silence()]}
    with Hardship(room, script, {}, route={"reply_timeout": 1.0}) as scene:
        first = scene.begin(1)
        scene.play()
        room.clock.advance(minutes=10)
        second = room.enqueue("later@example.com")
        scene.play()
        scene.assert_sent(*first, second, scene.control)


REFUSALS: list[tuple[Script, str]] = [
    ({"RCPT": ["550 5.1.1 no"]}, "perm"),
    ({"MAIL": ["550 no"]}, "perm"),
    ({"DATA": ["554 no"]}, "perm"),
    ({"DOT": ["451 later"]}, "temp"),
    ({"DOT": ["550 no"]}, "perm"),
    ({"RCPT": ["451 later"]}, "temp"),
    ({"RCPT": ["25x what"]}, "temp"),
    ({"RCPT": ["550 no"], "RSET": "500 what"}, "perm"),
    ({"RCPT": ["550 no"], "RSET": "451 later"}, "perm"),
    ({"RCPT": ["550 no"], "RSET": close()}, "perm"),
    ({"RCPT": ["550 no"], "RSET": raw(b"250 ok\r\n250 ok\r\n")}, "perm"),
]


@each("case", REFUSALS)
def test_oc_41_one_refusal_does_not_colour_the_next_row(room: Room, case: tuple[Script, str]) -> None:
    script, verdict = case
    with Hardship(room, script, {}) as scene:
        first, second = scene.begin(2)
        scene.play()
        scene.assert_sent(second, scene.control)
        assert [one.recipients for one in scene.relay.messages] == [
            ["r1@example.com"],
            ["control@example.com"],
        ]
        verbs = scene.relay.verbs
        second_mail = [number for number, verb in enumerate(verbs) if verb == "MAIL"][1]
        assert verbs[second_mail - 1] in ("RSET", "EHLO")
        if verdict == "temp":
            scene.assert_temp(first)
        else:
            scene.assert_perm(first)


def late(clock: FakeClock, octets: bytes) -> Action:
    """Begins a reply when the whole hand-over's time is over, and ends it when the next row has a connection."""

    async def act(talk: Conversation) -> None:
        clock.advance(seconds=181)
        await talk.send(octets[:1])
        for _ in range(1000):
            if len(talk.relay.connections) > 1:
                break
            await asyncio.sleep(0.01)
        await talk.send(octets[1:])

    return act


@each("reply", [b"250 id=1\r\n", b"250-id=1\r\n250 ok\r\n", b"250 ok\r\n250 ok\r\n250 ok\r\n"])
def test_oc_42_a_late_reply_is_the_answer_to_nothing_else(room: Room, reply: bytes) -> None:
    limits = {"final_timeout": 120.0, "handover_limit": 180.0}
    with Hardship(room, {"DOT": late(room.clock, reply)}, {"RCPT": ["550 5.1.1 no"]}, route=limits) as scene:
        first, second = scene.begin(2)
        scene.play()
        scene.assert_temp(first, doubtful=True)
        assert room.row(first).provider_id is None
        scene.assert_sent(scene.control)
        scene.assert_perm(second)
        assert len(scene.relay.connections[0].transactions) == 1


async def on_the_next_command(talk: Conversation) -> None:
    """Silent past the time limit; the verdict comes when the client says something again, if it ever does."""
    await talk.receive()
    await talk.perform("250 id=1")


def test_oc_42_a_connection_that_owes_a_reply_is_never_used_again(room: Room) -> None:
    script: Script = {"DOT": on_the_next_command, "RCPT": ["250 ok", "550 5.1.1 no"]}
    with Hardship(room, script, {"RCPT": ["550 5.1.1 no"]}, route={"final_timeout": QUICK}) as scene:
        first, second = scene.begin(2)
        scene.play()
        scene.assert_temp(first, doubtful=True)
        scene.assert_sent(scene.control)
        scene.assert_perm(second)
        assert scene.relay.connections[0].verbs()[-1] == "DATA"


@pytest.mark.parametrize("step", ["MAIL", "RCPT"])
def test_oc_42_one_reply_too_many_ends_the_connection(room: Room, step: str) -> None:
    with Hardship(room, {step: raw(b"250 ok\r\n250 again\r\n")}, {}) as scene:
        [row_id] = scene.begin()
        scene.play()
        scene.assert_temp(row_id)
        scene.assert_sent(scene.control)
        assert [len(one.transactions) for one in scene.relay.connections][1:] == [1]


def test_oc_42_one_reply_too_many_after_the_dot_keeps_the_result(room: Room) -> None:
    with Hardship(room, {"DOT": raw(b"250 ok\r\n550 again\r\n")}, {}) as scene:
        rows = scene.begin(2)
        scene.play()
        scene.assert_sent(*rows, scene.control)
        scene.later(WAIT + timedelta(hours=1))
        scene.assert_sent(*rows, scene.control)
