"""Section F of the cases at the session: one connection for many messages."""

import pytest

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break, Reply
from outbox_admin.core.lifecycle import Accepted, Deferred, Outcome, Rejected, Unknown
from tests.support.clock import FakeClock
from tests.support.relay import Action, Relay, Script, close, raw, reset, silence, then, wait
from tests.support.sessions import QUICK, deliver, outcome_of, session_to


def test_many_messages_go_over_one_connection() -> None:
    with Relay() as relay, session_to(relay) as session:
        for _ in range(5):
            assert outcome_of(deliver(session)) is Accepted
        assert session.uses == 5
        session.quit()
    assert relay.verbs == ["EHLO", *["MAIL", "RCPT", "DATA"] * 5, "QUIT"]


FOURTH: list[str | Action] = ["250 ok", "250 ok", "250 ok"]


@pytest.mark.parametrize(
    "script",
    [
        {"MAIL": [*FOURTH, then("421 4.7.0 enough", close())]},
        {"MAIL": [*FOURTH, close()]},
        {"MAIL": [*FOURTH, reset()]},
        {"DOT": ["250 ok", "250 ok", then("250 ok", close())]},
        {"DOT": ["250 ok", "250 ok", then("250 ok", wait(0.05), "421 4.7.0 enough", close())]},
    ],
)
def test_oc_40_a_relay_that_ends_connections_costs_nothing(script: Script) -> None:
    with Relay(script) as relay, session_to(relay) as session:
        for _ in range(20):
            assert outcome_of(deliver(session)) is Accepted
    assert len(relay.messages) == 20
    assert all(len(connection.transactions) <= 3 for connection in relay.connections)


def test_oc_40_the_number_of_messages_is_learned_and_kept() -> None:
    script: Script = {"MAIL": [*FOURTH, then("421 4.7.0 enough", close())]}
    with Relay(script) as relay, session_to(relay) as session:
        for _ in range(12):
            deliver(session)
    last = [connection.verbs()[-1] for connection in relay.connections]
    assert last == ["MAIL", "MAIL", "QUIT", "DATA"]


def test_oc_40_a_connection_closed_while_idle_is_opened_anew() -> None:
    with Relay({"DOT": then("250 ok", close())}, {}) as relay, session_to(relay) as session:
        assert outcome_of(deliver(session)) is Accepted
        assert relay.connections[0].ended.wait(60)
        assert outcome_of(deliver(session)) is Accepted
    assert [len(connection.transactions) for connection in relay.connections] == [1, 1]


def test_a_reused_connection_that_has_gone_deaf_is_replaced() -> None:
    """A firewall dropped it: no end of the connection is ever seen."""
    script: Script = {"MAIL": ["250 ok", silence()]}
    with Relay(script, {}) as relay, session_to(relay, reply_timeout=QUICK) as session:
        assert outcome_of(deliver(session)) is Accepted
        assert outcome_of(deliver(session)) is Accepted
    assert len(relay.connections) == 2


def test_oc_40_the_repetition_happens_once() -> None:
    script: Script = {"MAIL": ["250 ok", then("421 bye", close())]}
    with Relay(script, {"MAIL": then("421 bye", close())}) as relay, session_to(relay) as session:
        assert outcome_of(deliver(session)) is Accepted
        assert deliver(session) == Reply(Phase.MAIL, 421, "bye")
    assert len(relay.connections) == 2


def test_oc_40_the_repetition_may_meet_a_relay_that_is_gone() -> None:
    script: Script = {"MAIL": ["250 ok", then("421 bye", close())]}
    with Relay(script, {"CONNECT": "554 no"}) as relay, session_to(relay) as session:
        assert outcome_of(deliver(session)) is Accepted
        assert deliver(session) == Reply(Phase.GREETING, 554, "no")


@pytest.mark.parametrize("reply", [then("421 bye", close()), close()])
def test_oc_34_a_fresh_connection_is_not_tried_twice(reply: Action) -> None:
    """Also when it was opened by a call of its own before the message."""
    with Relay({"MAIL": reply}) as relay, session_to(relay) as session:
        assert session.open() is None
        assert deliver(session).phase is Phase.MAIL
    assert len(relay.connections) == 1


def test_a_connection_opened_long_ago_counts_as_used(clock: FakeClock) -> None:
    with Relay({"MAIL": close()}, {}) as relay, session_to(relay, clock=clock.monotonic) as session:
        assert session.probe() is None
        clock.advance(minutes=5)
        assert outcome_of(deliver(session)) is Accepted
    assert len(relay.connections) == 2


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ({"RCPT": ["550 no"]}, Rejected),
        ({"MAIL": ["550 no"]}, Rejected),
        ({"DATA": ["554 no"]}, Rejected),
        ({"DOT": ["451 later"]}, Deferred),
        ({"RCPT": ["503 order"]}, Deferred),
        ({"RCPT": ["25x what"]}, Deferred),
    ],
)
def test_oc_41_one_refusal_does_not_colour_the_next_message(script: Script, outcome: type[Outcome]) -> None:
    with Relay(script, {}) as relay, session_to(relay) as session:
        assert outcome_of(deliver(session, to="gone@example.com")) is outcome
        assert outcome_of(deliver(session, to="jane@example.com")) is Accepted
    (message,) = relay.messages
    assert message.recipients == ["jane@example.com"]
    verbs = relay.verbs
    second_mail = len(verbs) - 1 - verbs[::-1].index("MAIL")
    assert verbs[second_mail - 1] in ("RSET", "EHLO")


@pytest.mark.parametrize(
    "rset", ["500 what", "451 later", then("421 bye", close()), close(), reset(), "354 what"]
)
def test_oc_41_a_reset_that_fails_costs_only_the_connection(rset: str | Action) -> None:
    with Relay({"RCPT": ["550 no"], "RSET": rset}, {}) as relay, session_to(relay) as session:
        assert outcome_of(deliver(session)) is Rejected
        assert outcome_of(deliver(session)) is Accepted
    assert len(relay.connections) == 2


def test_oc_42_a_late_reply_is_not_read_as_the_answer_to_something_else() -> None:
    late = {"DOT": then(wait(2 * QUICK), "250 id=1")}
    with Relay(late, {"RCPT": "550 no"}) as relay, session_to(relay, final_timeout=QUICK) as session:
        first = deliver(session)
        assert not session.connected
        second = deliver(session)
    assert isinstance(first, Break)
    assert (first.phase, first.kind, outcome_of(first)) == (Phase.DOT, Kind.TIMEOUT, Unknown)
    assert second == Reply(Phase.RCPT, 550, "no")


@pytest.mark.parametrize("step", ["MAIL", "RCPT"])
def test_oc_42_one_reply_too_many_ends_the_connection(step: str) -> None:
    """The second line would be read as the answer to the next command."""
    with Relay({step: raw(b"250 ok\r\n250 again\r\n")}) as relay, session_to(relay) as session:
        event = deliver(session)
        assert not session.connected
    assert isinstance(event, Break)
    assert (event.kind, outcome_of(event)) == (Kind.PROTOCOL, Deferred)
    assert relay.messages == []


def test_oc_42_one_reply_too_many_after_the_dot_keeps_the_result_and_drops_the_connection() -> None:
    with Relay({"DOT": raw(b"250 ok\r\n550 again\r\n")}, {}) as relay, session_to(relay) as session:
        assert outcome_of(deliver(session)) is Accepted
        assert outcome_of(deliver(session)) is Accepted
    assert len(relay.connections) == 2
