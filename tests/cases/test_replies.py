"""Cases OC-25 to OC-36: what a relay says, or does not say, and what becomes of the rows. The whole engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from outbox_admin import Attachment
from tests.cases.hardship import COUNTING, QUICK, WAIT, Hardship, replayed
from tests.cases.scene import each
from tests.delivery.room import Room
from tests.support import mail
from tests.support.relay import (
    Action,
    Conversation,
    Script,
    close,
    deaf,
    raw,
    reset,
    silence,
    then,
    trickle,
)

Reply = str | Action
PATIENT = {"reply_timeout": 15.0, "handover_limit": 180.0}
LOGIN = {"username": "outbox", "password": "correct horse"}


def dripping(room: Room, octets: bytes, *, seconds: float) -> Action:
    """Sends ``octets`` again and again, so many seconds of the room's clock apart, until 15 have passed."""

    async def act(talk: Conversation) -> None:
        for _ in range(int(15 // seconds) + 1):
            room.clock.advance(seconds=seconds)
            await talk.send(octets)
            await asyncio.sleep(0.01)
        await talk.perform(silence())

    return act


@pytest.mark.parametrize(
    ("step", "octets", "seconds"),
    [("CONNECT", b"2", 5), ("EHLO", b"250-wait\r\n", 10), ("CONNECT", b"220-x\r\n", 1)],
)
def test_oc_25_a_relay_that_trickles_is_left_and_nothing_is_counted(
    room: Room, step: str, octets: bytes, seconds: float
) -> None:
    with Hardship(room, {step: dripping(room, octets, seconds=seconds)}, {}, route=PATIENT) as scene:
        [row_id] = scene.begin()
        began = room.clock.now()
        scene.play()
        assert scene.relay.connections[0].ended.wait(60)
        assert room.clock.now() - began < timedelta(seconds=180)
        phase = "greeting" if step == "CONNECT" else "ehlo"
        scene.assert_config(row_id, scene.control, phase=phase, seen="timeout")
        assert scene.connections == 1
        scene.later()
        scene.assert_sent(row_id, scene.control)


def test_oc_25_a_relay_that_says_nothing_is_left_and_nothing_is_counted(room: Room) -> None:
    with Hardship(room, {"CONNECT": silence()}, {}, route={"reply_timeout": QUICK}) as scene:
        [row_id] = scene.begin()
        scene.play()
        assert scene.relay.connections[0].ended.wait(60)
        scene.assert_config(row_id, scene.control, phase="greeting", seen="timeout")
        scene.later()
        scene.assert_sent(row_id, scene.control)


@pytest.mark.parametrize("step", ["MAIL", "RCPT", "DATA"])
def test_oc_25_a_reply_that_trickles_within_the_transaction_defers_its_row(room: Room, step: str) -> None:
    """Every line comes soon after the one before, and the reply as a whole does not come."""
    with Hardship(room, {step: dripping(room, b"250-wait\r\n", seconds=14)}, {}, route=PATIENT) as scene:
        [row_id] = scene.begin()
        began = room.clock.now()
        scene.play()
        assert room.attempts(row_id)[0].ended_at - began < timedelta(seconds=180)
        row = room.row(row_id)
        assert (row.cause_phase, row.cause_kind, row.attempts) == (step.lower(), "timeout", 1)
        scene.later()
        scene.assert_sent(scene.control)
        scene.assert_sent(row_id, attempts=2)


def test_oc_25_a_relay_that_stops_reading_is_left_and_the_row_waits(room: Room) -> None:
    with Hardship(room, {"DATA": then("354 go", deaf())}, {}, route={"reply_timeout": 1.0}) as scene:
        file = Attachment("large.bin", b"x" * (13 << 20))
        large = room.enqueue(message=mail.message(attachments=[file]))
        scene.begin(0)
        scene.play()
        scene.assert_temp(large)
        assert room.row(large).cause_phase == "content"
        assert scene.relay.messages == scene.arrived(scene.control)
        scene.assert_sent(scene.control)


@each(
    "reply",
    [
        trickle(b"250-a\r\n" * 1000, every=0),
        raw(b"x" * (10 << 20)),
        raw(b"550 " + b"x" * 20_000 + b"\r\n"),
        raw(b"550-" + b"x" * 400 + b"\r\n" + b"550-no\r\n" * 5000),
        raw(b"\r\n" * 5000),
    ],
)
@pytest.mark.parametrize("step", ["RCPT", "MAIL", "DATA"])
def test_oc_26_an_endless_reply_never_rejects(room: Room, step: str, reply: Reply) -> None:
    with Hardship(room, {step: reply}, {}) as scene:
        [row_id] = scene.begin()
        scene.play()
        scene.assert_temp(row_id)
        assert room.row(row_id).cause_phase == step.lower()
        scene.assert_sent(scene.control)


def test_oc_26_a_long_line_that_says_yes_says_yes(room: Room) -> None:
    """And one without end does not."""
    with Hardship(room, {"RCPT": [raw(b"250 " + b"x" * 20_000 + b"\r\n")]}) as scene:
        [row_id] = scene.begin()
        scene.play()
        scene.assert_sent(row_id, scene.control)
    with Hardship(room, {"RCPT": raw(b"250 " + b"x" * (10 << 20))}, {}) as scene:
        [row_id] = scene.begin()
        scene.play()
        scene.assert_temp(row_id)
        scene.assert_sent(scene.control)


GREETINGS: list[tuple[Reply, str]] = [
    ("554 no service", "greeting"),
    (then("421 busy", close()), "greeting"),
    (raw(b"SSH-2.0-x\r\n"), "greeting"),
    (raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "greeting"),
    ("521 no mail here", "greeting"),
    (close(), "greeting"),
    ("250 the wrong code", "greeting"),
    (then(raw(b"\x15\x03\x01\x00\x02\x02\x46"), close()), "greeting"),  # TLS, on a port thought to be plain
    (raw(b"220\x00ready\r\n"), "greeting"),
]


@each("greeting", GREETINGS)
def test_oc_27_a_greeting_that_is_not_220_costs_no_row_anything(
    room: Room, greeting: tuple[Reply, str]
) -> None:
    action, phase = greeting
    with Hardship(room, {"CONNECT": action}) as scene:
        rows = scene.begin(4)
        scene.play()
        scene.assert_config(*rows, scene.control, phase=phase)
        assert sum(room.row(row_id).tries for row_id in (*rows, scene.control)) == 1
        scene.later()
        assert scene.connections == 2  # one for each cycle, not one for each row
        replayed(scene, {})
        scene.later(timedelta(minutes=6))
        scene.assert_sent(*rows, scene.control)


def test_oc_27_a_connection_that_is_reset_or_refused_costs_no_row_anything(room: Room) -> None:
    """Where the reset meets it depends on the machine: while connecting, or in the greeting."""
    with Hardship(room, {"CONNECT": reset()}, {}) as scene:
        rows = scene.begin(4)
        scene.play()
        assert {(row.state, row.attempts) for row in room.rows()} == {("pending", 0)}
        assert {row.cause_phase for row in room.rows() if row.tries} <= {"connect", "greeting"}
        assert scene.connections == 1
        scene.later()
        scene.assert_sent(*rows, scene.control)


def test_oc_27_a_greeting_of_two_lines_is_one(room: Room) -> None:
    with Hardship(room, {"CONNECT": "220 hello\n220 ready"}) as scene:
        rows = scene.begin(4)
        scene.play()
        scene.assert_sent(*rows, scene.control)


@each("code", [502, 500, 504])
def test_oc_28_helo_where_ehlo_is_unknown_and_nothing_depends_on_it(room: Room, code: int) -> None:
    with Hardship(room, {"EHLO": f"{code} what"}) as scene:
        [row_id] = scene.begin()
        scene.play()
        scene.assert_sent(row_id, scene.control)
        assert scene.relay.verbs[:2] == ["EHLO", "HELO"]


EHLO: list[tuple[Reply, dict[str, Any], str, str | int | None]] = [
    ("502 what", {"tls": "starttls"}, "ehlo", 502),
    ("502 what", LOGIN, "ehlo", 502),
    (then("421 4.3.2 later", close()), {}, "ehlo", 421),
    (then("421 4.3.2 later", close()), {"tls": "starttls"}, "ehlo", 421),
    ("550 go away", {}, "ehlo", 550),
    ("550 go away", {"tls": "starttls"}, "ehlo", 550),
    (raw(b"250\r\n"), {"tls": "starttls"}, "tls", "tls_unavailable"),
    ("451 later", {}, "ehlo", 451),
    (raw(b"250-a\r\n550 b\r\n"), {}, "ehlo", "protocol"),
]


@each("case", EHLO)
def test_oc_28_ehlo_refused_is_a_fault_of_the_channel(
    room: Room, case: tuple[Reply, dict[str, Any], str, str | int | None]
) -> None:
    reply, route, phase, seen = case
    with Hardship(room, {"EHLO": reply}, route=route) as scene:
        rows = scene.begin(2)
        scene.play()
        scene.assert_config(*rows, scene.control, phase=phase, seen=seen)
        assert set(scene.relay.verbs) <= {"EHLO", "QUIT"}


def test_oc_28_ehlo_answered_without_text_is_answered(room: Room) -> None:
    with Hardship(room, {"EHLO": raw(b"250\r\n")}) as scene:
        [row_id] = scene.begin()
        scene.play()
        scene.assert_sent(row_id, scene.control)


REFUSED_LOGINS: list[tuple[Script, list[str]]] = [
    ({"AUTH": "535 5.7.8 wrong"}, ["AUTH PLAIN LOGIN CRAM-MD5"]),
    ({"AUTH": "454 4.7.0 not now"}, ["AUTH PLAIN LOGIN CRAM-MD5"]),
    ({"AUTH": "534 5.7.9 too weak"}, ["AUTH PLAIN LOGIN CRAM-MD5"]),
    ({"AUTH": "530 5.7.0 TLS first"}, ["AUTH PLAIN"]),
    ({"RESPONSE": "535 5.7.8 wrong"}, ["AUTH LOGIN"]),
    ({}, []),
    ({}, ["AUTH CRAM-MD5 GSSAPI"]),
]


@each("case", REFUSED_LOGINS)
def test_oc_29_a_refused_login_loses_nothing_and_is_not_tried_again_and_again(
    room: Room, case: tuple[Script, list[str]]
) -> None:
    script, offer = case
    with Hardship(room, script, route=LOGIN, offer=offer) as scene:
        rows = scene.begin(19 if case is REFUSED_LOGINS[0] else 2)
        scene.play()
        scene.assert_config(*rows, scene.control, phase="auth")
        for cycle in range(2, 9 if case is REFUSED_LOGINS[0] else 3):
            scene.later(timedelta(minutes=7))
            assert scene.connections == cycle
        assert all(one.verbs().count("AUTH") <= 1 for one in scene.relay.connections)
        assert set(room.states()) == {"pending"}
        replayed(scene, {})
        scene.relay.offer = ["AUTH PLAIN"]
        scene.later(timedelta(minutes=7))
        scene.assert_sent(*rows, scene.control)


WRONG = ("354 what", "220 what", "999 what", "25x what")
TEMPORARY = (450, 451, 452, 455, 503)
PERMANENT = (550, 551, 553, 554, 555)


@pytest.mark.parametrize("step", ["MAIL", "RCPT"])
def test_oc_30_what_the_codes_at_mail_and_rcpt_do_to_a_row(room: Room, step: str) -> None:
    permanent = [*PERMANENT, *([552] if step == "MAIL" else [])]
    temporary = [*TEMPORARY, *([552] if step == "RCPT" else []), 432, 499]
    for code in (250, 251, 259) if step == "MAIL" else (250, 251):
        with Hardship(room, {step: [f"{code} yes"]}) as scene:
            rows = scene.begin()
            scene.play()
            scene.assert_sent(*rows, scene.control)
    for code in temporary:
        with Hardship(room, {step: [f"{code} no"]}, {}) as scene:
            [row_id] = scene.begin()
            scene.play()
            scene.assert_temp(row_id)
            assert scene.connections == (2 if code == 503 else 1)
            scene.assert_sent(scene.control)
    for code in permanent:
        with Hardship(room, {step: [f"{code} no"]}) as scene:
            [row_id] = scene.begin()
            scene.play()
            scene.assert_sent(scene.control)
            scene.assert_perm(row_id)


@pytest.mark.parametrize("step", ["MAIL", "RCPT"])
def test_oc_30_a_code_that_speaks_of_our_login_is_the_channels(room: Room, step: str) -> None:
    for code in (530, 538):
        with Hardship(room, {step: f"{code} 5.7.0 log in"}, {}) as scene:
            [row_id] = scene.begin()
            scene.play()
            scene.assert_config(row_id, scene.control, phase=step.lower(), seen=code)
            scene.later()
            scene.later()
            scene.assert_sent(row_id, scene.control)


@pytest.mark.parametrize("step", ["MAIL", "RCPT"])
@each("line", [*WRONG, "2 50", "", "-250 no", "２50 ok", "2500 ok", "250_ok"])
def test_oc_30_a_code_that_cannot_stand_here_drops_the_connection(room: Room, step: str, line: str) -> None:
    with Hardship(room, {step: raw(line.encode() + b"\r\n")}, {}) as scene:
        [row_id] = scene.begin()
        scene.play()
        scene.assert_temp(row_id)
        assert scene.relay.connections[0].verbs()[-1] == step
        scene.assert_sent(scene.control)


DATA: list[tuple[Reply, str]] = [
    ("250 what", "temp"),
    ("451 later", "temp"),
    ("503 order", "temp"),
    ("300 what", "temp"),
    (raw(b"354-go\r\n250 no\r\n"), "temp"),
    ("554 no", "perm"),
    ("552 no", "perm"),
]


@each("case", DATA)
def test_oc_31_no_content_leaves_unless_data_got_354(room: Room, case: tuple[Reply, str]) -> None:
    reply, verdict = case
    with Hardship(room, {"DATA": [reply]}, {}) as scene:
        [row_id] = scene.begin()
        scene.play()
        assert scene.copies(row_id) == []
        assert bytes(scene.relay.connections[0].octets).count(b"Hello Jane") <= 1  # of the control
        scene.assert_sent(scene.control)
        if verdict == "temp":
            scene.assert_temp(row_id)
        else:
            scene.assert_perm(row_id)


DOT: list[tuple[Reply, str]] = [
    *[(f"{code} ok", "sent") for code in (250, 251, 200, 259, 299)],
    *[(f"{code} later", "temp") for code in (450, 451, 452, 499)],
    *[(f"{code} no", "perm") for code in (550, 552, 554, 503, 571)],
    ("354 what", "unknown"),
    (raw(b"what\r\n"), "unknown"),
    (raw(b"250-a\r\n251 b\r\n"), "unknown"),
    (raw(b"999 what\r\n"), "unknown"),
    (raw(b"2\r\n"), "unknown"),
    (then(raw(b"250-never ends\r\n"), close()), "unknown"),
    (raw(b"\xff\xfe\r\n"), "unknown"),
    (then(raw(b"250"), close()), "unknown"),
    (then(raw(b"250 ok"), close()), "unknown"),
]


@each("case", DOT)
def test_oc_31_what_the_reply_to_the_dot_does_to_a_row(room: Room, case: tuple[Reply, str]) -> None:
    reply, verdict = case
    with Hardship(room, {"DOT": [reply]}, {}) as scene:
        [row_id] = scene.begin()
        scene.play()
        scene.assert_sent(scene.control)
        match verdict:
            case "sent":
                scene.assert_sent(row_id)
            case "perm":
                scene.assert_perm(row_id)
            case _:
                scene.assert_temp(row_id, doubtful=verdict == "unknown")


@pytest.mark.parametrize("end", [close(), reset(), silence()], ids=["close", "reset", "silence"])
def test_oc_32_a_connection_that_ends_after_the_dot_leaves_a_doubt_and_one_more_copy(
    room: Room, end: Action
) -> None:
    with Hardship(room, {"DOT": end}, {}, route={"final_timeout": QUICK}) as scene:
        [row_id] = scene.begin()
        scene.play()
        scene.assert_temp(row_id, doubtful=True)
        assert [one.outcome for one in room.attempts(row_id)] == ["unknown"]
        assert room.row(row_id).cause_phase == "dot"
        for _ in range(3):
            scene.later()
        scene.assert_sent(row_id, attempts=2, copies=2)
        assert len(set(scene.copies(row_id))) == 1
        scene.assert_sent(scene.control)


def test_oc_32_at_most_once_waits_for_an_operator_instead(room: Room) -> None:
    with Hardship(room, {"DOT": close()}, {}) as scene:
        [row_id] = scene.begin(on_unknown="hold")
        scene.play()
        scene.later(timedelta(hours=5))
        row = room.row(row_id)
        assert (row.state, row.maybe_delivered, row.attempts) == ("uncertain", True, 1)
        assert row.payload is not None
        assert len(scene.copies(row_id)) == 1
        scene.assert_sent(scene.control)


@each("end", ["500 what", then("421 bye", close()), "250 ok", silence(), close(), reset(), raw(b"\0\r\n")])
def test_oc_33_a_parting_that_goes_wrong_changes_nothing(room: Room, end: Reply) -> None:
    with Hardship(room, {"QUIT": end}) as scene:
        [row_id] = scene.begin()
        scene.play()
        scene.assert_sent(row_id, scene.control)  # before the relay hears QUIT
        assert "QUIT" not in scene.relay.verbs
        before = room.rows()
        scene.lane.rest()
        scene.later(timedelta(hours=1))
        assert room.rows() == before
        assert scene.relay.verbs.count("QUIT") == 1
        scene.assert_sent(row_id, scene.control)


@each("step", ["EHLO", "AUTH", "MAIL", "RCPT", "DATA"])
def test_oc_34_code_421_before_the_content_counts_against_no_row(room: Room, step: str) -> None:
    shut = then("421 4.3.2 closing", close())
    with Hardship(room, {step: shut}, {}, route=LOGIN, offer=["AUTH PLAIN"]) as scene:
        rows = scene.begin(19 if step == "RCPT" else 3)
        scene.play()
        assert scene.relay.connections[0].verbs()[-1] == step
        scene.assert_config(*rows, scene.control, phase=step.lower(), seen=421)
        scene.later()
        scene.later()
        scene.assert_sent(*rows, scene.control)


def test_oc_34_code_421_to_the_dot_counts_against_its_row_alone(room: Room) -> None:
    with Hardship(room, {"DOT": then("421 4.3.2 closing", close())}, {}) as scene:
        rows = scene.begin(19)
        scene.play()
        scene.assert_temp(rows[0])
        scene.assert_sent(*rows[1:], scene.control)
        scene.later()
        scene.assert_sent(rows[0], attempts=2, copies=2)


def test_oc_34_code_421_to_rset_counts_against_nobody(room: Room) -> None:
    script: Script = {"RCPT": ["550 5.1.1 no"], "RSET": then("421 bye", close())}
    with Hardship(room, script, {}) as scene:
        first, *others = scene.begin(19)
        scene.play()
        scene.assert_sent(*others, scene.control)
        scene.assert_perm(first)


def test_oc_34_with_the_breaker_off_code_421_is_counted(room: Room) -> None:
    with Hardship(room, {"MAIL": then("421 closing", close())}, {}, rules=COUNTING) as scene:
        first, second = scene.begin(2)
        scene.play()
        scene.assert_temp(first)
        scene.assert_sent(second, scene.control)


HOSTILE = "夜".encode("gbk") + b"\0\x1b[31m<script>\x80" + b"y" * 3000


@each("code", [550, 554, 451])
@each("step", ["RCPT", "MAIL", "DOT"])
def test_oc_35_hostile_text_in_a_refusal_is_not_stored_in_clear(room: Room, step: str, code: int) -> None:
    with Hardship(room, {step: [raw(b"%d " % code + HOSTILE + b"\r\n")]}) as scene:
        [row_id] = scene.begin()
        scene.play()
        row = room.row(row_id)
        shown = f"{row.cause_hint}{row.cause_ref}{row.cause_enhanced}"
        assert "yyy" not in shown
        assert "script" not in shown
        detail = room.ring.open_detail(row.detail, row_id=row_id, attempt=row.tries)
        assert len(detail) <= 500
        assert detail.isprintable()
        scene.assert_sent(scene.control)
        if code == 451:
            scene.assert_temp(row_id)
        else:
            scene.assert_perm(row_id)


ACCEPTANCES: Sequence[tuple[bytes, str | None]] = [
    (b"250 2.0.0 Ok: queued as " + HOSTILE + b"\r\n", None),
    (b"250-2.0.0 Ok\r\n250-id=77\r\n250 bye\r\n", "77"),
    (b"250\r\n", None),
    (b"250 \r\n", None),
    (b"250 2.0.0 Ok: queued as <b>1</b>\r\n", None),
    (b"250 queued as " + b"A" * 5000 + b"\r\n", None),
    (b"250 2.0.0 Ok: queued as \xf0\x9f\x98\x80\r\n", None),
]


@each("case", ACCEPTANCES)
def test_oc_36_hostile_text_in_an_acceptance_is_an_acceptance(
    room: Room, case: tuple[bytes, str | None]
) -> None:
    line, provider_id = case
    with Hardship(room, {"DOT": [raw(line)]}, {}) as scene:
        [row_id] = scene.begin()
        scene.play()
        scene.assert_sent(row_id, scene.control)
        found = room.row(row_id).provider_id
        assert found is None or (found.isprintable() and len(found) <= 200 and "<" not in found)
        if provider_id is not None:
            assert found == provider_id
        scene.later(WAIT)
        scene.assert_sent(row_id)
