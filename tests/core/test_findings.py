"""What the figures of a queue mean."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.findings import findings, worst
from outbox_admin.core.health import START_COMMANDS, Count, Crew, Figures, Level, MissingKey, Pause

NOW = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)
CALM = Figures(
    now=NOW,
    oldest_due=None,
    oldest_pending=None,
    failed=Count(0),
    uncertain=Count(0),
    rejected_last_hour=Count(0),
    crew=Crew(active=2),
    held={},
)


def level(**changed: object) -> Level:
    return worst(findings(replace(CALM, **changed)))  # type: ignore[arg-type]


def sentences(**changed: object) -> str:
    return " ".join(f"{one.sentence} {one.cure}" for one in findings(replace(CALM, **changed)))  # type: ignore[arg-type]


def test_a_quiet_queue_is_well() -> None:
    assert level() is Level.OK


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(60, Level.OK), (61, Level.WARNING), (300, Level.WARNING), (301, Level.CRITICAL)],
)
def test_the_oldest_due_message_warns_after_a_minute_and_alarms_after_five(
    seconds: int, expected: Level
) -> None:
    assert level(oldest_due=float(seconds)) is expected


@pytest.mark.parametrize(
    ("minutes", "expected"), [(30, Level.OK), (31, Level.WARNING), (90, Level.WARNING), (91, Level.CRITICAL)]
)
def test_the_oldest_open_message_warns_after_half_an_hour(minutes: int, expected: Level) -> None:
    assert level(oldest_pending=minutes * 60.0) is expected


def test_no_worker_is_critical_as_soon_as_something_is_due() -> None:
    nobody = Crew(lost=1, last_beat_at=NOW - timedelta(minutes=3))
    assert level(crew=nobody) is Level.WARNING
    assert level(crew=nobody, oldest_due=1.0) is Level.CRITICAL
    told = sentences(crew=nobody)
    assert "The last one was seen 3 min ago." in told
    assert all(command in told for command in START_COMMANDS)


def test_rows_of_a_missing_key_are_an_alarm_with_cure_and_time() -> None:
    key = MissingKey("0102030405060708", Count(12), NOW - timedelta(hours=1), timedelta(hours=72))
    assert level(missing_keys=(key,)) is Level.CRITICAL
    assert sentences(missing_keys=(key,)).startswith(
        "12 messages wait for key 0102030405060708, which no worker holds. "
        "Restore the key ring, or declare the key lost; in 71 h they are rejected."
    )
    one = replace(key, waiting=Count(1), since=NOW - timedelta(hours=80))
    assert "1 message waits for key" in sentences(missing_keys=(one,))
    assert "with the next cycle it is rejected" in sentences(missing_keys=(one,))


def test_a_pause_names_route_reason_and_next_try() -> None:
    cause = Cause(Phase.AUTH, Kind.AUTH_REJECTED, 535)
    pause = Pause("primary", None, cause, NOW - timedelta(minutes=5), NOW + timedelta(seconds=40))
    told = sentences(pauses=(pause,))
    assert "Sending on route primary is paused for 5 min" in told
    assert "(535)" in told
    assert "Next try in 40 s." in told
    assert level(pauses=(pause,)) is Level.WARNING
    bare = Pause("primary", "mail-1:4", None, None, None)
    assert "Worker mail-1:4 alone has paused route primary." in sentences(pauses=(bare,))


@pytest.mark.parametrize(
    ("days", "expected"),
    [(15, Level.OK), (14, Level.WARNING), (1, Level.WARNING), (0, Level.CRITICAL), (-3, Level.CRITICAL)],
)
def test_a_key_ring_that_stops_sealing_is_told_two_weeks_before(days: int, expected: Level) -> None:
    assert level(seals_until=NOW + timedelta(days=days)) is expected


def test_the_end_of_sealing_comes_with_its_cure() -> None:
    assert "In 72 h no key seals" in sentences(seals_until=NOW + timedelta(days=3))
    assert "keys generate" in sentences(seals_until=NOW)


def test_dead_letters_count_too() -> None:
    assert level(failed=Count(1)) is Level.WARNING
    assert level(uncertain=Count(1)) is Level.WARNING
    assert level(rejected_last_hour=Count(20)) is Level.OK
    assert level(rejected_last_hour=Count(21)) is Level.WARNING


def test_unreadable_rows_are_an_alarm_and_rows_of_a_newer_version_a_warning() -> None:
    assert level(held={"unreadable": Count(1)}) is Level.CRITICAL
    first = findings(replace(CALM, held={"unreadable": Count(1)}))[0]
    assert first.command == "outbox-admin unreadable"
    assert level(held={"format": Count(3)}) is Level.WARNING
    assert level(held={"format": Count(0)}) is Level.OK


def test_what_expired_unsent_is_told_and_many_of_them_are_a_warning() -> None:
    assert "1 expired unsent in the last hour" in sentences(expired_last_hour=Count(1))
    assert level(expired_last_hour=Count(20)) is Level.OK
    assert level(expired_last_hour=Count(21)) is Level.WARNING


def test_a_stuck_worker_is_a_warning() -> None:
    assert level(crew=Crew(active=2, stuck=1)) is Level.WARNING


def test_the_worst_comes_first() -> None:
    found = findings(replace(CALM, failed=Count(1), oldest_due=400.0))
    assert [one.level for one in found] == sorted((one.level for one in found), key=lambda one: -one.rank)


def test_counts_say_where_they_stopped() -> None:
    assert (str(Count(9999)), str(Count(10_000, capped=True))) == ("9,999", "10,000+")
