from uuid import UUID

import pytest

from outbox_admin.core import streak
from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.streak import Mark, Streak

BLOCKED = Mark(Phase.RCPT, 554, "5.7.1")
BUSY = Mark(Phase.DATA, 451, None)


def after(*messages: int, mark: Mark = BLOCKED, start: Streak | None = None) -> Streak:
    found = start
    for number, message in enumerate(messages):
        found = streak.lengthened(found, mark, UUID(int=message), number)
    assert found is not None
    return found


def test_e22_five_different_messages_in_a_row_are_the_channels_fault():
    assert not after(1, 2, 3, 4).is_full
    assert after(1, 2, 3, 4, 5).is_full


def test_e22_the_same_message_again_is_no_other_one_but_its_try_is_remembered():
    found = after(1, 1, 1, 2, 3, 4)
    assert not found.is_full
    assert len(found.tries) == 6
    assert after(5, start=found).is_full


def test_e22_another_mark_begins_anew():
    assert after(9, mark=BUSY, start=after(1, 2, 3, 4)) == Streak(BUSY, ((UUID(int=9), 0),))


def test_a_result_that_is_told_twice_counts_once():
    once = after(1)
    assert after(1, start=once) == once


@pytest.mark.parametrize(
    ("phase", "code", "enhanced", "counts"),
    [
        (Phase.MAIL, 451, None, True),
        (Phase.RCPT, 450, "4.7.1", True),
        (Phase.DATA, 452, "4.3.1", True),
        (Phase.DOT, 451, "4.7.0", True),
        (Phase.RCPT, 554, "5.7.1", True),
        (Phase.RCPT, 552, "5.2.2", False),
        (Phase.RCPT, 503, "5.5.1", False),
        (Phase.DOT, 554, "5.7.1", True),  # on trial only: else it is a rejection
        (Phase.RCPT, 550, "5.6.0", True),
        (Phase.RCPT, 550, None, True),
        (Phase.RCPT, 550, "5.1.1", False),
        (Phase.RCPT, 552, None, False),
        (Phase.DOT, 552, "5.3.1", True),
        (Phase.CONTENT, 451, None, False),
        (Phase.GREETING, 451, None, False),
        (Phase.MAIL, None, None, False),
    ],
)
def test_e22_counts_4yz_from_mail_on_policy_at_rcpt_and_refusals_on_trial(phase, code, enhanced, counts):
    mark = streak.mark_of(Cause(phase, Kind.THROTTLED, code, enhanced))
    assert mark == (Mark(phase, code, enhanced) if counts else None)


def test_e22_on_trial_refusals_need_not_be_equal():
    found = None
    for message, mark in enumerate([BLOCKED, BUSY, BLOCKED, BUSY, BLOCKED]):
        assert found is None or not found.is_full
        found = streak.lengthened(found, mark, UUID(int=message), 1, on_trial=True)
    assert found is not None
    assert found.is_full
    assert found.mark == BLOCKED


@pytest.mark.parametrize(
    ("phase", "code", "enhanced", "passed"),
    [
        (Phase.RCPT, 550, "5.1.1", True),
        (Phase.RCPT, 552, "5.2.2", True),
        (Phase.RCPT, 552, None, True),
        (Phase.RCPT, 503, "5.5.1", True),
        (Phase.RCPT, 550, "5.6.0", False),
        (Phase.DOT, 552, "5.3.1", False),
        (Phase.MAIL, 451, None, False),
        (Phase.CONNECT, 554, None, False),
        (Phase.CONTENT, None, None, False),
    ],
)
def test_e22_on_trial_a_recipients_own_refusal_tells_nothing(phase, code, enhanced, passed):
    assert streak.is_passed_over(Cause(phase, Kind.RECIPIENT_REJECTED, code, enhanced)) is passed
    assert not streak.is_passed_over(None)


def test_what_has_no_cause_has_no_mark():
    assert streak.mark_of(None) is None
