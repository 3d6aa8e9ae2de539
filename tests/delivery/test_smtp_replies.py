"""Section D of the cases at the session: what it does and returns for every kind of reply.

Time limits are scaled down: QUICK stands for the 15 seconds of a reply.
"""

import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break, Reply
from outbox_admin.core.lifecycle import Accepted, ChannelFault, Deferred, Outcome, Rejected, Unknown
from outbox_admin.delivery.compose import Composed
from tests.support.clock import FakeClock
from tests.support.relay import Action, Relay, Script, close, deaf, raw, reset, silence, then, trickle
from tests.support.sessions import CONTENT, QUICK, RECIPIENT, deliver, outcome_of, session_to
from tests.support.waiting import LIMIT

LARGE = (b"x" * 70 + b"\r\n") * 250_000  # 17 MiB: more than any socket buffer holds

CONFIG, TEMP, PERM = ChannelFault, Deferred, Rejected


def test_a_message_arrives_octet_for_octet() -> None:
    with Relay() as relay, session_to(relay) as session:
        event = deliver(session)
    assert event == Reply(Phase.DOT, 250, "2.0.0 Ok: queued as SCRIPT1")
    (message,) = relay.messages
    assert (message.sender, message.recipients, message.content) == (
        "no-reply@shop.example",
        [RECIPIENT],
        CONTENT,
    )


@pytest.mark.parametrize(
    ("script", "phase"),
    [
        ({"CONNECT": trickle(b"2", every=QUICK / 4)}, Phase.GREETING),
        ({"EHLO": trickle(b"250-wait\r\n", every=QUICK / 4)}, Phase.EHLO),
        ({"CONNECT": silence()}, Phase.GREETING),
    ],
)
def test_oc_25_a_reply_that_trickles_ends_at_its_limit(script: Script, phase: Phase) -> None:
    with Relay(script) as relay, session_to(relay, reply_timeout=QUICK) as session:
        event = deliver(session)
        assert relay.connections[0].ended.wait(60)
    assert isinstance(event, Break)
    assert (event.phase, event.kind, outcome_of(event)) == (phase, Kind.TIMEOUT, CONFIG)
    assert not session.connected


def test_oc_25_a_relay_that_stops_reading_the_content_is_left() -> None:
    with (
        Relay({"DATA": then("354 go", deaf())}) as relay,
        session_to(relay, reply_timeout=QUICK) as session,
    ):
        event = deliver(session, LARGE)
    assert event == Break(
        Phase.CONTENT, Kind.TIMEOUT, event.raw if isinstance(event, Break) else "", begun=False
    )
    assert outcome_of(event) is TEMP
    assert not session.connected


def test_oc_25_one_limit_holds_for_the_whole_hand_over() -> None:
    """Every reply is in time, yet all together are not."""
    slow = {step: trickle(b"250-x\r\n", every=0.05) for step in ("RCPT",)}
    with Relay(slow) as relay, session_to(relay, handover_limit=QUICK) as session:
        began = time.monotonic()
        event = deliver(session)
        assert time.monotonic() - began < LIMIT
    assert isinstance(event, Break)
    assert (event.phase, event.kind) == (Phase.RCPT, Kind.TIMEOUT)


def test_oc_25_the_time_of_connecting_belongs_to_the_hand_over(clock: FakeClock) -> None:
    """179 s for EHLO are in time, and so are 2 s for MAIL; together they are more than 180.

    The relay's thread turns the clock: whether MAIL or RCPT meets the end depends on which thread comes first.
    """

    def pass_time(seconds: float) -> Action:
        async def act(talk: object) -> None:
            clock.advance(seconds=seconds)

        return act

    script = {"EHLO": then(pass_time(179), "250 relay.example"), "MAIL": then(pass_time(2), "250 OK")}
    limits = {"handover_limit": 180, "reply_timeout": 1000}
    with Relay(script) as relay, session_to(relay, clock=clock.monotonic, **limits) as session:
        assert session.open() is None
        event = deliver(session)
    assert isinstance(event, Break)
    assert event.phase in (Phase.MAIL, Phase.RCPT)
    assert event.kind is Kind.TIMEOUT


@pytest.mark.parametrize(
    "action",
    [
        trickle(b"250-a\r\n" * 1000, every=0),
        raw(b"550 " + b"x" * 20_000 + b"\r\n"),
        raw(b"x" * (10 << 20)),
        raw(b"250 " + b"x" * (10 << 20)),
    ],
)
def test_oc_26_endless_and_oversized_replies_are_cut_in_little_memory(action: Action) -> None:
    with Relay({"RCPT": action}) as relay, session_to(relay, reply_timeout=5) as session:
        session.open()
        with memory_of("delivery") as peak:
            event = deliver(session)
        assert not session.connected
    assert isinstance(event, Break)
    assert (event.phase, event.kind, outcome_of(event)) == (Phase.RCPT, Kind.PROTOCOL, TEMP)
    assert peak() < 5 << 20


@contextmanager
def memory_of(room: str) -> Iterator[Callable[[], int]]:
    """What this room still holds afterwards; octets. The relay runs in this process too and is not counted."""
    held: list[int] = []
    tracemalloc.start()
    try:
        yield held.pop
        mine = tracemalloc.Filter(inclusive=True, filename_pattern=f"*/outbox_admin/{room}/*")
        shot = tracemalloc.take_snapshot().filter_traces([mine])
        held.append(sum(each.size for each in shot.statistics("filename")))
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("greeting", "seen"),
    [
        ("554 no service", 554),
        ("521 no mail here", 521),
        (then("421 busy", close()), 421),
        (raw(b"SSH-2.0-x\r\n"), Kind.PROTOCOL),
        (raw(b"HTTP/1.1 400 Bad Request\r\n"), Kind.PROTOCOL),
        ("250 wrong code", Kind.PROTOCOL),
        (close(), Kind.NETWORK),
        (reset(), Kind.NETWORK),
    ],
)
def test_oc_27_a_greeting_that_is_not_220(greeting: str | Action, seen: int | Kind) -> None:
    with Relay({"CONNECT": greeting}) as relay, session_to(relay) as session:
        event = deliver(session)
    assert event.phase in (Phase.GREETING, Phase.CONNECT)  # a reset may already meet the connecting
    assert seen == (event.code if isinstance(event, Reply) else event.kind)
    assert outcome_of(event) is CONFIG
    assert (relay.verbs, len(relay.connections)) == ([], 1)


def test_oc_27_a_greeting_of_two_lines() -> None:
    with Relay({"CONNECT": "220 hello\n220 ready"}) as relay, session_to(relay) as session:
        assert outcome_of(deliver(session)) is Accepted


def test_oc_28_helo_where_ehlo_is_not_known() -> None:
    with Relay({"EHLO": "502 what"}) as relay, session_to(relay) as session:
        assert outcome_of(deliver(session)) is Accepted
    assert relay.verbs[:3] == ["EHLO", "HELO", "MAIL"]


@pytest.mark.parametrize("login", [{"tls": "starttls"}, {"username": "u", "password": "p"}])
def test_oc_28_no_helo_where_tls_or_a_login_is_needed(login: dict[str, str]) -> None:
    with Relay({"EHLO": "502 what"}) as relay, session_to(relay, **login) as session:
        event = deliver(session)
    assert event == Reply(Phase.EHLO, 502, "what")
    assert outcome_of(event) is CONFIG
    assert relay.verbs == ["EHLO"]


@pytest.mark.parametrize(("reply", "code"), [(then("421 later", close()), 421), ("550 go away", 550)])
def test_oc_28_ehlo_refused_is_not_followed_by_helo(reply: str | Action, code: int) -> None:
    with Relay({"EHLO": reply}) as relay, session_to(relay) as session:
        event = deliver(session)
    assert isinstance(event, Reply)
    assert (event.phase, event.code, outcome_of(event)) == (Phase.EHLO, code, CONFIG)
    assert relay.verbs == ["EHLO"]


def test_oc_28_ehlo_answered_without_text() -> None:
    with Relay({"EHLO": raw(b"250\r\n")}) as relay, session_to(relay) as session:
        assert outcome_of(deliver(session)) is Accepted


@pytest.mark.parametrize("step", ["MAIL", "RCPT"])
@pytest.mark.parametrize("code", [450, 451, 452, 455, 503, 530, 538, 550, 551, 552, 553, 554, 555])
def test_oc_30_a_refusal_of_mail_or_rcpt_is_returned_as_it_came(step: str, code: int) -> None:
    with Relay({step: f"{code} no"}) as relay, session_to(relay) as session:
        event = deliver(session)
        assert session.connected is (code != 503)
    assert event == Reply(Phase(step.lower()), code, "no")
    assert outcome_of(event) is _expected(step, code)
    assert relay.messages == []


def _expected(step: str, code: int) -> type[Outcome]:
    if code in (530, 538):
        return CONFIG
    if code < 500 or code == 503 or (code == 552 and step == "RCPT"):
        return TEMP
    return PERM


@pytest.mark.parametrize(("step", "code"), [("MAIL", 250), ("MAIL", 251), ("RCPT", 250), ("RCPT", 251)])
def test_oc_30_acceptance_goes_on(step: str, code: int) -> None:
    with Relay({step: f"{code} yes"}) as relay, session_to(relay) as session:
        assert outcome_of(deliver(session)) is Accepted


@pytest.mark.parametrize("step", ["MAIL", "RCPT"])
@pytest.mark.parametrize("line", [b"354 what\r\n", b"220 what\r\n", b"999 what\r\n", b"25x what\r\n"])
def test_oc_30_a_code_that_cannot_stand_here_drops_the_connection(step: str, line: bytes) -> None:
    with Relay({step: raw(line)}) as relay, session_to(relay) as session:
        event = deliver(session)
        assert not session.connected
    assert isinstance(event, Break)
    assert (event.phase, event.kind, outcome_of(event)) == (Phase(step.lower()), Kind.PROTOCOL, TEMP)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [("250 what", TEMP), ("451 later", TEMP), ("503 order", TEMP), ("554 no", PERM), ("300 what", TEMP)],
)
def test_oc_31_no_content_is_written_unless_data_got_354(reply: str, outcome: type[Outcome]) -> None:
    with Relay({"DATA": reply}) as relay, session_to(relay) as session:
        event = deliver(session)
        assert (event.phase, outcome_of(event)) == (Phase.DATA, outcome)
    assert b"Hello Jane" not in relay.connections[0].octets


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ("250 ok", Accepted),
        ("251 ok", Accepted),
        ("200 ok", Accepted),
        ("259 ok", Accepted),
        ("450 later", TEMP),
        ("451 later", TEMP),
        ("452 later", TEMP),
        ("550 no", PERM),
        ("552 no", PERM),
        ("554 no", PERM),
        ("354 what", Unknown),
        (raw(b"what\r\n"), Unknown),
        (raw(b"250-a\r\n251 b\r\n"), Unknown),
        (raw(b"999 what\r\n"), Unknown),
    ],
)
def test_oc_31_the_reply_to_the_final_dot(reply: str | Action, outcome: type[Outcome]) -> None:
    with Relay({"DOT": reply}) as relay, session_to(relay) as session:
        event = deliver(session)
        assert session.connected is (outcome is not Unknown)
    assert (event.phase, outcome_of(event)) == (Phase.DOT, outcome)


@pytest.mark.parametrize(
    ("end", "kind"), [(close(), Kind.NETWORK), (reset(), Kind.NETWORK), (silence(), Kind.TIMEOUT)]
)
def test_oc_32_no_reply_to_the_dot_leaves_the_outcome_unknown(end: Action, kind: Kind) -> None:
    with Relay({"DOT": end}, {}) as relay, session_to(relay, final_timeout=QUICK) as session:
        event = deliver(session)
        again = deliver(session)
    assert isinstance(event, Break)
    assert (event.phase, event.kind, event.begun, outcome_of(event)) == (Phase.DOT, kind, True, Unknown)
    assert outcome_of(again) is Accepted
    assert [each.content for each in relay.transactions] == [CONTENT, CONTENT]


@pytest.mark.parametrize("end", ["500 what", then("421 bye", close()), "250 ok", silence(), close(), reset()])
def test_oc_33_a_quit_that_goes_wrong_changes_nothing(end: str | Action) -> None:
    with Relay({"QUIT": end}) as relay, session_to(relay) as session:
        event = deliver(session)
        began = time.monotonic()
        session.quit()
        assert time.monotonic() - began < LIMIT
    assert outcome_of(event) is Accepted
    assert not session.connected
    assert relay.verbs[-1] == "QUIT"


@pytest.mark.parametrize(
    ("step", "outcome"),
    [("EHLO", CONFIG), ("MAIL", CONFIG), ("RCPT", CONFIG), ("DATA", CONFIG), ("DOT", TEMP)],
)
def test_oc_34_code_421_closes_without_another_command(step: str, outcome: type[Outcome]) -> None:
    with Relay({step: then("421 4.3.2 closing", close())}) as relay, session_to(relay) as session:
        event = deliver(session)
        assert not session.connected
    assert event == Reply(Phase(step.lower()), 421, "4.3.2 closing")
    assert outcome_of(event) is outcome
    assert relay.connections[0].verbs()[-1] == (step if step != "DOT" else "DATA")
    assert len(relay.connections) == 1


def test_oc_34_code_421_to_rset_counts_against_nobody() -> None:
    script = {"RCPT": "550 no", "RSET": then("421 bye", close())}
    with Relay(script, {}) as relay, session_to(relay) as session:
        assert outcome_of(deliver(session)) is PERM
        assert outcome_of(deliver(session)) is Accepted
    assert len(relay.connections) == 2


HOSTILE = "夜".encode("gbk") + b"\0\x1b[31m<script>\x80" + b"y" * 3000


def test_oc_35_hostile_text_in_a_refusal_is_still_a_refusal() -> None:
    with Relay({"RCPT": raw(b"550 " + HOSTILE + b"\r\n")}) as relay, session_to(relay) as session:
        event = deliver(session)
    assert isinstance(event, Reply)
    assert (event.code, outcome_of(event)) == (550, PERM)
    assert event.text.endswith("y" * 3000)
    assert "yyy" not in repr(event)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"250 2.0.0 Ok: queued as " + HOSTILE + b"\r\n", None),
        (b"250-2.0.0 Ok\r\n250-id=77\r\n250 bye\r\n", "2.0.0 Ok\nid=77\nbye"),
        (b"250\r\n", ""),
    ],
)
def test_oc_36_hostile_text_in_an_acceptance_is_still_an_acceptance(line: bytes, text: str | None) -> None:
    with Relay({"DOT": raw(line)}) as relay, session_to(relay) as session:
        event = deliver(session)
        assert session.connected
    assert isinstance(event, Reply)
    assert outcome_of(event) is Accepted
    assert text is None or event.text == text


def test_a_closed_port_is_a_network_fault_of_the_connection() -> None:
    with Relay() as relay:
        pass
    with session_to(relay) as session:
        event = session.open()
    assert isinstance(event, Break)
    assert (event.phase, event.kind, outcome_of(event)) == (Phase.CONNECT, Kind.NETWORK, CONFIG)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64 + ".example"])
def test_a_name_that_does_not_resolve_is_a_fault_of_the_connection(host: str) -> None:
    with Relay() as relay, session_to(relay, host=host) as session:
        event = session.open()
    assert isinstance(event, Break)
    assert (event.phase, event.kind, outcome_of(event)) == (Phase.CONNECT, Kind.DNS, CONFIG)


def test_abort_from_another_thread_wakes_a_waiting_session() -> None:
    with Relay({"DOT": silence()}) as relay, session_to(relay) as session:
        threading.Timer(0.2, session.abort).start()
        event = deliver(session)
    assert isinstance(event, Break)
    assert (event.phase, event.kind, event.begun) == (Phase.DOT, Kind.NETWORK, True)


def test_a_probe_connects_and_risks_no_message() -> None:
    with Relay() as relay, session_to(relay) as session:
        assert session.probe() is None
        assert session.connected
        assert relay.verbs == ["EHLO", "NOOP"]
        assert outcome_of(deliver(session)) is Accepted
        assert session.probe() is None
    assert relay.verbs == ["EHLO", "NOOP", "MAIL", "RCPT", "DATA", "EHLO", "NOOP"]


def test_a_probe_does_not_go_by_a_connection_that_was_opened_long_before(clock: FakeClock) -> None:
    """Nor by its time limit: a lane that works over another route keeps one on which it never sent anything."""
    with Relay({"NOOP": "451 of an old connection"}, {}) as relay:
        with session_to(relay, clock=clock.monotonic) as session:
            assert session.open() is None
            clock.advance(minutes=5)
            assert session.probe() is None
        assert [connection.verbs() for connection in relay.connections] == [["EHLO"], ["EHLO", "NOOP"]]


@pytest.mark.parametrize(
    ("script", "phase"),
    [
        ({"NOOP": "451 no"}, Phase.EHLO),
        ({"NOOP": close()}, Phase.EHLO),
        ({"CONNECT": "554 no"}, Phase.GREETING),
    ],
)
def test_a_probe_that_fails_is_a_fault_of_the_channel(script: Script, phase: Phase) -> None:
    with Relay(script) as relay, session_to(relay) as session:
        event = session.probe()
        assert not session.connected
    assert event is not None
    assert (event.phase, outcome_of(event)) == (phase, CONFIG)


@pytest.mark.parametrize(
    ("helo", "name"), [("mail.shop.example", b"mail.shop.example"), ("[192.0.2.7]", b"[192.0.2.7]")]
)
def test_the_name_given_to_ehlo_is_the_configured_one(helo: str, name: bytes) -> None:
    with Relay() as relay, session_to(relay, helo=helo) as session:
        session.open()
    assert relay.connections[0].commands == [b"EHLO " + name]


def test_the_name_given_to_ehlo_is_a_full_name_or_an_address_literal() -> None:
    with Relay() as relay, session_to(relay) as session:
        session.open()
    name = relay.connections[0].commands[0].removeprefix(b"EHLO ")
    assert name == b"[127.0.0.1]" or b"." in name


def test_size_is_asked_and_answered() -> None:
    with Relay(offer=["SIZE 100", "8BITMIME"]) as relay, session_to(relay) as session:
        assert session.max_size is None
        assert outcome_of(deliver(session)) is Accepted
        assert session.max_size == 100
        too_large = deliver(session, b"x" * 99 + b"\r\n")
        assert too_large == Break(Phase.MAIL, Kind.TOO_LARGE, "message of 101 octets, relay takes 100")
        assert session.connected
    mails = [command for command in relay.connections[0].commands if command.startswith(b"MAIL")]
    assert mails == [b"MAIL FROM:<no-reply@shop.example> SIZE=%d" % len(CONTENT)]


def test_oc_06_a_non_ascii_local_part_needs_the_extension() -> None:
    with Relay(offer=["SIZE", "8BITMIME"]) as relay, session_to(relay) as session:
        event = session.deliver(Composed(CONTENT, "a@shop.example", "jörg@example.com", smtputf8=True))
        assert session.connected
    assert isinstance(event, Break)
    assert (event.phase, event.kind, outcome_of(event)) == (Phase.MAIL, Kind.UNSUPPORTED, PERM)
    assert max(relay.connections[0].octets) < 128
    assert "MAIL" not in relay.verbs


def test_a_non_ascii_local_part_is_sent_where_the_extension_is_offered() -> None:
    with Relay(offer=["SMTPUTF8"]) as relay, session_to(relay) as session:
        event = session.deliver(Composed(CONTENT, "a@shop.example", "jörg@example.com", smtputf8=True))
    assert outcome_of(event) is Accepted
    assert relay.connections[0].commands[1:3] == [
        b"MAIL FROM:<a@shop.example> SMTPUTF8",
        "RCPT TO:<jörg@example.com>".encode(),
    ]


def test_an_illegal_address_is_refused_before_the_wire() -> None:
    with Relay() as relay, session_to(relay) as session:
        session.open()
        with pytest.raises(ValueError):
            deliver(session, to="jane@example.com\r\nRCPT TO:<eve@example.com>")
        assert outcome_of(deliver(session)) is Accepted
    assert b"eve@" not in relay.connections[0].octets
