import re
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.classify import Break, Reply, classify
from outbox_admin.core.lifecycle import (
    Accepted,
    ChannelFault,
    Deferred,
    Outcome,
    Rejected,
    Undeliverable,
    Unknown,
)

BEFORE_MAIL = (Phase.CONNECT, Phase.GREETING, Phase.EHLO, Phase.TLS, Phase.AUTH)
TALKING = (Phase.MAIL, Phase.RCPT, Phase.DATA)
MESSAGE = (*TALKING, Phase.CONTENT, Phase.DOT)
TEMP, PERM, CONFIG = Deferred, Rejected, ChannelFault


def careful(phase: Phase, code: int, text: str = "") -> Outcome:
    return classify(Reply(phase, code, text), literal_5xx=False)


def literal(phase: Phase, code: int, text: str = "") -> Outcome:
    return classify(Reply(phase, code, text), literal_5xx=True)


def cause(outcome: Outcome) -> Cause:
    assert not isinstance(outcome, Accepted)
    return outcome.cause


def broken(phase: Phase, kind: Kind, *, begun: bool = False) -> Outcome:
    return classify(Break(phase, kind, "reset by peer", begun), literal_5xx=False)


@pytest.mark.parametrize(
    "code", [220, 354, 421, 450, 454, 500, 502, 503, 504, 521, 530, 534, 535, 538, 550, 554]
)
@pytest.mark.parametrize("phase", BEFORE_MAIL)
@pytest.mark.parametrize("rule", [careful, literal])
def test_oc_27_28_29_no_reply_before_mail_is_ever_the_messages_fault(rule, phase, code):
    assert type(rule(phase, code)) is CONFIG


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("phase", BEFORE_MAIL)
def test_oc_25_37_38_39_no_break_before_mail_is_ever_the_messages_fault(phase, kind):
    assert type(broken(phase, kind)) is CONFIG


@pytest.mark.parametrize(
    ("codes", "at_mail", "at_rcpt"),
    [
        ([450, 451, 452, 455], TEMP, TEMP),
        ([503], TEMP, TEMP),
        ([530, 538], CONFIG, CONFIG),
        ([550, 551, 553, 554, 555], PERM, PERM),
        ([552], PERM, TEMP),
        ([354, 220, 999], TEMP, TEMP),
        ([421], CONFIG, CONFIG),
    ],
)
def test_oc_30_codes_at_mail_and_rcpt(codes, at_mail, at_rcpt):
    for code in codes:
        assert type(careful(Phase.MAIL, code)) is at_mail
        assert type(careful(Phase.RCPT, code)) is at_rcpt


@pytest.mark.parametrize(
    ("codes", "at_data", "at_dot"),
    [
        ([450, 451, 452], TEMP, TEMP),
        ([550, 552, 554], PERM, PERM),
        ([250, 251, 200, 259], TEMP, Accepted),
        ([530, 538], CONFIG, CONFIG),
        ([421], CONFIG, TEMP),
        ([503], TEMP, PERM),
        ([354, 100, 0, 999], TEMP, Unknown),
    ],
)
def test_oc_31_codes_at_data_and_the_final_dot(codes, at_data, at_dot):
    for code in codes:
        assert type(careful(Phase.DOT, code)) is at_dot
        if code != 354:
            assert type(careful(Phase.DATA, code)) is at_data


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        (Phase.EHLO, CONFIG),
        (Phase.AUTH, CONFIG),
        (Phase.MAIL, CONFIG),
        (Phase.RCPT, CONFIG),
        (Phase.DATA, CONFIG),
        (Phase.CONTENT, TEMP),
        (Phase.DOT, TEMP),
    ],
)
def test_oc_34_code_421_is_the_channels_until_the_dot(phase, expected):
    for rule in (careful, literal):
        outcome = rule(phase, 421, "4.3.2 shutting down")
        assert type(outcome) is expected
        assert (cause(outcome).code, cause(outcome).kind) == (421, Kind.THROTTLED)


@pytest.mark.parametrize("code", range(500, 600))
@pytest.mark.parametrize("phase", [*TALKING, Phase.DOT])
def test_literal_every_5xx_rejects_but_530(phase, code):
    assert type(literal(phase, code)) is (TEMP if code == 530 else PERM)
    assert type(literal(phase, code, "5.7.1 denied")) is (TEMP if code == 530 else PERM)


@given(phase=st.sampled_from(MESSAGE), code=st.integers(400, 599), text=st.text(max_size=60))
def test_careful_never_rejects_what_literal_keeps(phase, code, text):
    if type(careful(phase, code, text)) is PERM:
        assert type(literal(phase, code, text)) is PERM


@pytest.mark.parametrize(
    ("phase", "text", "expected"),
    [
        (Phase.MAIL, "5.7.1 not owned by user", CONFIG),
        (Phase.RCPT, "5.7.1 relay access denied", TEMP),
        (Phase.DATA, "5.7.1 denied", PERM),
        (Phase.DOT, "5.7.1 spam", PERM),
        (Phase.MAIL, "4.7.1 a class that contradicts the code", PERM),
        (Phase.RCPT, "relay access denied (5.7.1)", PERM),
    ],
)
def test_e22_policy_codes_before_the_content_speak_of_us(phase, text, expected):
    assert type(careful(phase, 550, text)) is expected


@pytest.mark.parametrize("kind", [Kind.TIMEOUT, Kind.NETWORK, Kind.PROTOCOL, Kind.UNKNOWN])
def test_e25_a_break_is_in_doubt_only_from_the_last_write_on(kind):
    for phase in TALKING:
        assert type(broken(phase, kind)) is TEMP
    assert type(broken(Phase.CONTENT, kind)) is TEMP
    assert type(broken(Phase.CONTENT, kind, begun=True)) is Unknown
    assert type(broken(Phase.DOT, kind)) is Unknown
    assert type(broken(Phase.DOT, kind, begun=True)) is Unknown


@pytest.mark.parametrize("code", [250, 354, 421, 451, 552, 554])
def test_e25_a_reply_in_the_middle_of_the_content_judges_nothing(code):
    for rule in (careful, literal):
        assert type(rule(Phase.CONTENT, code)) is TEMP


def test_oc_26_an_oversized_or_endless_reply_never_rejects():
    for phase in TALKING:
        assert type(broken(phase, Kind.PROTOCOL)) is TEMP


def test_oc_32_42_no_reply_after_the_dot_is_in_doubt_and_says_so():
    outcome = broken(Phase.DOT, Kind.TIMEOUT)
    assert outcome == Unknown(Cause(Phase.DOT, Kind.TIMEOUT, hint="reset by peer"), "reset by peer")


def test_oc_06_a_relay_without_the_needed_extension_is_refused_at_the_first_attempt():
    assert type(broken(Phase.MAIL, Kind.UNSUPPORTED)) is PERM


def test_a_message_larger_than_the_relay_takes_keeps_its_payload():
    assert type(broken(Phase.MAIL, Kind.TOO_LARGE)) is Undeliverable


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.LEASE])
def test_a_phase_without_a_relay_is_a_programming_error(phase):
    with pytest.raises(ValueError, match="phase"):
        careful(phase, 550)
    with pytest.raises(ValueError, match="phase"):
        broken(phase, Kind.TIMEOUT)


@pytest.mark.parametrize(
    ("phase", "code", "text", "kind"),
    [
        (Phase.GREETING, 554, "no service", Kind.SENDER_REFUSED),
        (Phase.GREETING, 421, "busy", Kind.THROTTLED),
        (Phase.GREETING, 250, "", Kind.PROTOCOL),
        (Phase.EHLO, 502, "", Kind.PROTOCOL),
        (Phase.EHLO, 550, "", Kind.SENDER_REFUSED),
        (Phase.TLS, 454, "", Kind.TLS_UNAVAILABLE),
        (Phase.TLS, 502, "", Kind.TLS_UNAVAILABLE),
        (Phase.AUTH, 535, "5.7.8 bad credentials", Kind.AUTH_REJECTED),
        (Phase.AUTH, 534, "", Kind.AUTH_REJECTED),
        (Phase.AUTH, 454, "4.7.0 temporary", Kind.THROTTLED),
        (Phase.MAIL, 530, "5.7.0 log in first", Kind.SENDER_REFUSED),
        (Phase.MAIL, 550, "5.7.60 send as denied", Kind.SENDER_REFUSED),
        (Phase.MAIL, 550, "", Kind.SENDER_REJECTED),
        (Phase.MAIL, 553, "5.1.8 no such domain", Kind.SENDER_REJECTED),
        (Phase.MAIL, 450, "4.1.8 no such domain", Kind.SENDER_REJECTED),
        (Phase.MAIL, 552, "", Kind.TOO_LARGE),
        (Phase.MAIL, 552, "5.3.4 too big", Kind.TOO_LARGE),
        (Phase.MAIL, 555, "", Kind.UNSUPPORTED),
        (Phase.MAIL, 500, "", Kind.PROTOCOL),
        (Phase.MAIL, 503, "5.5.1", Kind.PROTOCOL),
        (Phase.RCPT, 550, "5.1.1 no such user", Kind.RECIPIENT_REJECTED),
        (Phase.RCPT, 550, "", Kind.RECIPIENT_REJECTED),
        (Phase.RCPT, 450, "4.1.1 unverified", Kind.RECIPIENT_REJECTED),
        (Phase.RCPT, 550, "5.1.8 sender domain", Kind.SENDER_REJECTED),
        (Phase.RCPT, 554, "5.7.1 relay access denied", Kind.SENDER_REFUSED),
        (Phase.RCPT, 450, "4.2.0 greylisted", Kind.THROTTLED),
        (Phase.RCPT, 451, "4.7.1 greylisted", Kind.THROTTLED),
        (Phase.RCPT, 452, "4.2.2 full", Kind.MAILBOX_FULL),
        (Phase.RCPT, 550, "5.2.2 full", Kind.MAILBOX_FULL),
        (Phase.RCPT, 552, "", Kind.MAILBOX_FULL),
        (Phase.DATA, 554, "", Kind.MESSAGE_REJECTED),
        (Phase.DATA, 250, "", Kind.PROTOCOL),
        (Phase.DOT, 550, "5.7.1 spam", Kind.MESSAGE_REJECTED),
        (Phase.DOT, 552, "5.3.4 too big", Kind.TOO_LARGE),
        (Phase.DOT, 552, "5.2.2 full", Kind.MAILBOX_FULL),
        (Phase.DOT, 451, "4.3.0 try later", Kind.THROTTLED),
        (Phase.DOT, 354, "", Kind.PROTOCOL),
    ],
)
def test_the_kind_follows_from_phase_and_codes(phase, code, text, kind):
    outcome = careful(phase, code, text)
    assert cause(outcome).kind is kind
    assert cause(outcome).phase is phase


@pytest.mark.parametrize("words", ["mailbox full quota spam blocked", "5.7.1", "try later, throttled", "421"])
def test_the_text_never_decides(words):
    assert careful(Phase.RCPT, 550, f"no: {words}") == Rejected(
        Cause(
            Phase.RCPT,
            Kind.RECIPIENT_REJECTED,
            550,
            hint=cause(careful(Phase.RCPT, 550, f"no: {words}")).hint,
        ),
        f"550 no: {words}",
    )


def test_the_cause_of_a_refusal_has_both_codes_and_the_raw_text_travels_beside_it():
    outcome = careful(Phase.RCPT, 550, "5.1.1 <alice@example.com>: user unknown")
    assert outcome == Rejected(
        Cause(Phase.RCPT, Kind.RECIPIENT_REJECTED, 550, "5.1.1", "550 5.1.1 … user unknown"),
        "550 5.1.1 <alice@example.com>: user unknown",
    )


def test_oc_28_the_stored_reason_of_a_421_names_it():
    assert cause(careful(Phase.EHLO, 421, "too many connections")).code == 421


def test_a_code_that_is_no_refusal_is_named_in_the_hint_alone():
    found = cause(careful(Phase.MAIL, 250, "2.1.0 ok"))
    assert (found.kind, found.code, found.enhanced, found.hint) == (Kind.PROTOCOL, None, None, "250 2.1.0 ok")


def test_oc_35_hostile_text_in_a_refusal_rejects_at_once_and_leaves_clean_words_only():
    hostile = (
        b"\xc4\xe3\xba\xc3 \0 \x1b[31m <script>alert(1)</script> \x80 mailbox unknown ".decode("latin-1")
        + "x" * 3000
    )
    outcome = careful(Phase.RCPT, 550, hostile)
    assert type(outcome) is PERM
    assert cause(outcome).hint == "550 … mailbox unknown …"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2.0.0 Ok: queued as \0" + "é" * 5 + "A" * 5000, "A" * 200), ("first\nid=1\nlast", "1"), ("", None)],
)
def test_oc_36_hostile_or_missing_text_in_an_acceptance_is_an_acceptance(text, expected):
    outcome = careful(Phase.DOT, 250, text)
    assert type(outcome) is Accepted
    assert outcome.provider_id is None or re.fullmatch(r"[A-Za-z0-9._:+=@/-]{1,200}", outcome.provider_id)
    assert (outcome.provider_id or "")[:3] == (expected or "")[:3]


@given(
    phase=st.sampled_from((*BEFORE_MAIL, *MESSAGE)),
    code=st.integers(0, 999),
    text=st.text(max_size=3000),
    rule=st.sampled_from([careful, literal]),
)
def test_s14_every_reply_has_one_outcome_whose_cause_keeps_to_its_patterns(phase, code, text, rule):
    outcome = rule(phase, code, text)
    if isinstance(outcome, Accepted):
        assert phase is Phase.DOT
        assert 200 <= code <= 299
        return
    found = cause(outcome)
    assert found.code is None or 400 <= found.code <= 599
    assert found.enhanced is None or re.fullmatch(r"[45]\.[0-9]{1,3}\.[0-9]{1,3}", found.enhanced)
    assert found.hint is None or len(found.hint) <= 200
    assert sum(len(str(getattr(found, item.name))) for item in fields(found)) <= 500
    assert type(outcome) is not Unknown or phase is Phase.DOT
    assert type(outcome) is not PERM or 500 <= code <= 599


def test_neither_event_shows_the_relays_text_when_printed():
    assert "canary" not in repr(Reply(Phase.DOT, 250, "canary"))
    assert "canary" not in repr(Break(Phase.DOT, Kind.NETWORK, "canary"))
