"""The content phase: dots, line ends, blocks, and from which moment nobody can know any more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break, Reply
from outbox_admin.core.lifecycle import Accepted, Deferred, Rejected, Unknown
from outbox_admin.delivery.content import check_content, stuffed
from outbox_admin.delivery.envelope import Unsendable
from tests.support.clock import FakeClock
from tests.support.relay import Action, EndOfData, Relay, close, deaf, raw, reset, then, wait
from tests.support.sessions import QUICK, deliver, outcome_of, session_to

LARGE = (b"x" * 70 + b"\r\n") * 250_000  # 17 MiB: more than any socket buffer holds

SMUGGLED = b"A\r\n.\r\nMAIL FROM:<x@example.com>\r\nRCPT TO:<eve@example.com>\r\nDATA\r\nhi\r\n.\r\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b".\r\n",
        b"..\r\n.x\r\n.\r\n",
        b"a\r\n.\r\nb\r\n",
        SMUGGLED,
        b"\r\n\r\n",
        b"x" * 65535 + b"\r\n",
        b"x" * 65534 + b"\r\n.\r\n",
    ],
)
def test_oc_17_lines_that_begin_with_a_dot_arrive_as_they_were(content: bytes) -> None:
    with Relay() as relay, session_to(relay) as session:
        assert outcome_of(deliver(session, content)) is Accepted
        assert outcome_of(deliver(session)) is Accepted
    assert relay.messages[0].content == content
    assert len(relay.messages) == 2


def test_a_missing_last_line_end_is_added() -> None:
    with Relay() as relay, session_to(relay) as session:
        deliver(session, b"abc")
    assert relay.messages[0].content == b"abc\r\n"


@pytest.mark.parametrize("end_of_data", list(EndOfData))
def test_oc_18_every_kind_of_relay_sees_one_message(end_of_data: EndOfData) -> None:
    with Relay(end_of_data=end_of_data) as relay, session_to(relay) as session:
        assert outcome_of(deliver(session, SMUGGLED)) is Accepted
        session.quit()
    assert relay.verbs == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"]
    assert [message.content for message in relay.messages] == [SMUGGLED]


@pytest.mark.parametrize("body", [b"\r.\r", b"\n.\n", b"\r\n.\n", b"\r\r\n.\r\n", b"a\rb", b"a\nb", b"\r"])
def test_oc_18_a_line_end_that_is_not_crlf_never_reaches_the_wire(body: bytes) -> None:
    with Relay() as relay, session_to(relay) as session, pytest.raises(Unsendable):
        deliver(session, b"Subject: x\r\n\r\n" + body)
    assert relay.connections == []


@given(st.lists(st.sampled_from([b".", b"x", b"\r\n", b"..", b"\r\n.\r\n"])).map(b"".join))
def test_stuffing_is_what_unstuffing_undoes(content: bytes) -> None:
    check_content(content)
    lines = stuffed(content).split(b"\r\n")
    assert b"." not in lines
    assert b"\r\n".join(line.removeprefix(b".") for line in lines) == content


def test_content_without_such_lines_is_not_copied() -> None:
    content = b"Subject: x\r\n\r\na.b\r\n"
    assert stuffed(content) is content


@pytest.mark.parametrize(
    "content",
    [
        b".\r\n" * 60_000,
        b"." * 200_000 + b"\r\n",
        b"x" * 200_000 + b"\r\n.\r\n",
        (b"." * 999 + b"\r\n") * 300 + b".",
        b"x" * 65_536,
        b"x" * 65_534 + b"\r\n" + b".",
    ],
)
def test_oc_17_dots_are_kept_wherever_blocks_are_cut(content: bytes) -> None:
    with Relay() as relay, session_to(relay) as session:
        assert outcome_of(deliver(session, content)) is Accepted
    assert relay.messages[0].content == content.removesuffix(b"\r\n") + b"\r\n"


def test_a_large_message_arrives_whole() -> None:
    with Relay() as relay, session_to(relay) as session:
        assert outcome_of(deliver(session, LARGE)) is Accepted
    assert relay.messages[0].content == LARGE


@pytest.mark.parametrize(
    ("end", "kind"), [(close(), Kind.NETWORK), (reset(), Kind.NETWORK), (deaf(), Kind.TIMEOUT)]
)
def test_lost_before_the_last_write_is_deferred(end: Action, kind: Kind) -> None:
    with Relay({"DATA": then("354 go", end)}) as relay, session_to(relay, reply_timeout=QUICK) as session:
        event = deliver(session, LARGE)
    assert isinstance(event, Break)
    assert (event.phase, event.kind, event.begun, outcome_of(event)) == (Phase.CONTENT, kind, False, Deferred)


@pytest.mark.parametrize("end", [close(), reset()])
def test_lost_from_the_last_write_on_is_unknown(end: Action) -> None:
    with Relay({"DATA": then("354 go", end)}) as relay, session_to(relay) as session:
        event = deliver(session)
    assert isinstance(event, Break)
    assert (event.begun, outcome_of(event)) == (True, Unknown)


@pytest.mark.parametrize(
    ("words", "outcome"), [("552 5.3.4 too large", Deferred), ("421 4.3.0 going down", Deferred)]
)
def test_a_refusal_in_mid_content_is_read_before_the_broken_connection(words: str, outcome: type) -> None:
    """The write fails, but what the relay said lies there already."""
    with Relay({"DATA": then("354 go", words, wait(0.1), close())}) as relay, session_to(relay) as session:
        event = deliver(session, LARGE)
        assert not session.connected
    assert isinstance(event, Reply)
    assert (event.phase, event.code, outcome_of(event)) == (Phase.CONTENT, int(words[:3]), outcome)


def test_a_reply_too_many_before_the_content_stops_it() -> None:
    with Relay({"DATA": raw(b"354 go\r\n250 done\r\n")}) as relay, session_to(relay) as session:
        event = deliver(session)
        assert not session.connected
    assert isinstance(event, Break)
    assert (event.phase, event.kind, event.begun, outcome_of(event)) == (
        Phase.CONTENT,
        Kind.PROTOCOL,
        False,
        Deferred,
    )
    assert b"Hello Jane" not in relay.connections[0].octets


def test_the_hand_over_of_a_large_message_may_take_longer(clock: FakeClock) -> None:
    """One second more for each 256 KiB: 17 MiB have 248 s instead of 180."""

    async def two_hundred_seconds(talk: object) -> None:
        clock.advance(seconds=200)

    script = {"DATA": then(two_hundred_seconds, "354 go")}
    limits = {"handover_limit": 180, "reply_timeout": 1000}
    with Relay(script) as relay, session_to(relay, clock=clock.monotonic, **limits) as session:
        assert outcome_of(deliver(session, LARGE)) is Accepted
        assert deliver(session).phase in (Phase.DATA, Phase.CONTENT)


def test_the_final_dot_has_a_limit_of_its_own() -> None:
    """Longer than that of other replies: the relay may be scanning what it got."""
    slow = {"DOT": then(wait(2 * QUICK), "250 scanned")}
    with Relay(slow) as relay, session_to(relay, reply_timeout=QUICK, final_timeout=10) as session:
        assert deliver(session) == Reply(Phase.DOT, 250, "scanned")


def test_a_refused_dot_is_final() -> None:
    with Relay({"DOT": "554 5.7.1 spam"}) as relay, session_to(relay) as session:
        assert outcome_of(deliver(session)) is Rejected
