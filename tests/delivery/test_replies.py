"""What is a reply, what is none, and in how much memory that is found out."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.delivery.replies import (
    MAX_LINE,
    MAX_LINES,
    MAX_OCTETS,
    Answer,
    Malformed,
    ReplyBuffer,
    decoded,
)


def take(octets: bytes) -> Answer | None:
    buffer = ReplyBuffer()
    buffer.feed(octets)
    return buffer.take()


@pytest.mark.parametrize(
    ("octets", "answer"),
    [
        (b"250 2.0.0 OK\r\n", Answer(250, "2.0.0 OK")),
        (b"250\r\n", Answer(250, "")),
        (b"250 \r\n", Answer(250, "")),
        (b"250 LF alone\n", Answer(250, "LF alone")),
        (b"250-a\r\n250-b\r\n250 c\r\n", Answer(250, "a\nb\nc")),
        (b"250-a\r\n250\r\n", Answer(250, "a\n")),
        (b"259 any code from 200 to 599\r\n", Answer(259, "any code from 200 to 599")),
    ],
)
def test_a_reply_is_read(octets: bytes, answer: Answer) -> None:
    assert take(octets) == answer


@pytest.mark.parametrize(
    "octets",
    [
        b"25x OK\r\n",
        b"999 OK\r\n",
        b"100 OK\r\n",
        b"250OK\r\n",
        b"2500 OK\r\n",
        b"250\tOK\r\n",
        b" 250 OK\r\n",
        b"\r\n",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 400 Bad Request\r\n",
        "２５０ OK\r\n".encode(),
        b"250-a\r\n251 b\r\n",
        b"250-a\r\n550 b\r\n",
        b"550 " + b"x" * MAX_LINE + b"\r\n",
        b"250 " + b"x" * MAX_OCTETS + b"\r\n",
        b"2500" + b"x" * MAX_OCTETS,
        b"x" * (MAX_LINE + 1),
        b"250-a\r\n" * (MAX_LINES + 1),
        (b"250-" + b"x" * 4000 + b"\r\n") * 17,
    ],
)
def test_what_is_no_reply_gets_no_made_up_code(octets: bytes) -> None:
    with pytest.raises(Malformed):
        take(octets)


def test_an_acceptance_may_say_more_than_a_line_holds() -> None:
    """Or what the relay took would be sent again."""
    assert take(b"250 queued as " + b"A" * 20_000 + b"\r\n") == Answer(250, "queued as " + "A" * 20_000)


@given(st.lists(st.integers(1, 20)))
def test_it_does_not_matter_how_the_octets_are_cut(cuts: list[int]) -> None:
    octets = b"220-one\r\n220 two\r\n250\n550-no\r\n550 5.1.1 never\r\n"
    buffer, answers = ReplyBuffer(), []
    for size in [*cuts, len(octets)]:
        buffer.feed(octets[:size])
        octets = octets[size:]
        while (answer := buffer.take()) is not None:
            answers.append(answer)
    assert answers == [Answer(220, "one\ntwo"), Answer(250), Answer(550, "no\n5.1.1 never")]
    assert not buffer


def test_what_follows_a_reply_stays_and_shows() -> None:
    buffer = ReplyBuffer()
    buffer.feed(b"220 go ahead\r\n250 injected\r\n")
    assert buffer.take() == Answer(220, "go ahead")
    assert buffer


@given(st.binary())
def test_text_is_decoded_whatever_it_is(octets: bytes) -> None:
    assert isinstance(decoded(octets), str)


@given(st.binary(max_size=3000))
def test_any_octets_give_replies_or_a_fault_and_nothing_else(octets: bytes) -> None:
    buffer = ReplyBuffer()
    buffer.feed(octets)
    with suppress(Malformed):
        while (answer := buffer.take()) is not None:
            assert 200 <= answer.code <= 599


def test_the_text_stays_out_of_the_representation() -> None:
    assert "jane@example.com" not in repr(Answer(550, "jane@example.com is unknown"))
