"""What keeps mail from going out, as a person on call reads it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from outbox_admin.core.cause import Cause, Kind, Phase
from outbox_admin.core.findings import findings, worst
from outbox_admin.core.health import Count, Crew, Figures, Finding, Held, Level, MissingKey, Pause
from outbox_admin.core.hold import Hold, Scope

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
REFUSED = Cause(Phase.AUTH, Kind.AUTH_REJECTED, 535)


def about(topic: str, **changed: object) -> list[Finding]:
    return [one for one in findings(replace(CALM, **changed)) if one.topic == topic]  # type: ignore[arg-type]


def hold(scope: Scope = Scope.EVERYTHING, value: str = "", *, rows: int = 0, **given: object) -> Held:
    made = Hold(UUID(int=7), scope, value, "relay moves", "alice", NOW - timedelta(minutes=50), None)
    return Held(replace(made, **given), Count(rows))  # type: ignore[arg-type]


def test_a_copied_database_is_critical_and_names_both_ways_out() -> None:
    (found,) = about("copied", copied_since=NOW - timedelta(minutes=5), crew=Crew(copied=2))
    assert found.level is Level.CRITICAL
    assert "This database is a copy; sending has stopped for 5 min" in found.sentence
    assert found.command == "outbox-admin resume --confirm-copy"
    assert "Leave it so if it is a copy to look at" in found.cure


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (1, "1 worker was started paused (--paused); it sends nothing."),
        (3, "3 workers were started paused (--paused); they send nothing."),
    ],
)
def test_workers_that_were_started_paused_are_told_with_what_lets_them_send(number: int, said: str) -> None:
    (found,) = about("paused", crew=Crew(active=1, paused=number))
    assert (found.level, found.sentence) == (Level.WARNING, said)
    assert found.command == "outbox-admin resume"


def test_workers_of_which_none_sends_are_not_called_at_work() -> None:
    (found,) = about("workers", crew=Crew(copied=1, paused=1))
    assert (found.level, found.sentence) == (Level.WARNING, "2 workers alive, and none of them sends.")
    (some,) = about("workers", crew=Crew(active=1, paused=1))
    assert some.sentence == "1 worker at work."


def test_a_paused_route_says_why_since_when_when_next_and_that_nothing_is_lost() -> None:
    pause = Pause("primary", None, REFUSED, NOW - timedelta(minutes=12), NOW + timedelta(seconds=40))
    (found,) = about("route", pauses=(pause,))
    assert found.sentence == (
        "Sending on route primary is paused for 12 min: Login refused by the relay at the login (535). "
        "Next try in 40 s."
    )
    assert "OUTBOX_SMTP_PASSWORD" in found.cure
    assert "loses no attempt" in found.cure
    assert (found.subject, found.command) == ("primary", "outbox-admin probe primary")


def test_a_probe_under_way_names_who_makes_it() -> None:
    pause = Pause("primary", None, REFUSED, None, NOW, probing_by="mail-2:9")
    (found,) = about("route", pauses=(pause,))
    assert "Worker mail-2:9 tries it right now." in found.sentence


def test_a_route_on_trial_is_not_called_paused() -> None:
    pause = Pause("primary", None, REFUSED, NOW - timedelta(minutes=3), None, trials=4)
    (found,) = about("route", pauses=(pause,))
    assert "Route primary is on trial after a pause for 3 min" in found.sentence
    assert "4 messages at a time" in found.sentence
    assert found.subject == ""  # there is no probe to bring forward


def test_e23_one_sick_worker_is_named_and_the_relay_is_not_blamed() -> None:
    pause = Pause("primary", "mail-2:9", Cause(Phase.CONNECT, Kind.NETWORK), NOW, NOW + timedelta(seconds=9))
    (found,) = about("route", pauses=(pause,))
    assert found.sentence.startswith("Worker mail-2:9 alone has paused route primary")
    assert found.cure.startswith("Others send over it: look at that machine.")
    assert found.subject == ""


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (hold(), "Everything is held for 50 min by alice: “relay moves”."),
        (hold(rows=1), "“relay moves”. 1 message waits for it."),
        (hold(Scope.TEMPLATE, "invoice.notice", rows=12), "Template invoice.notice is held for 50 min"),
        (hold(Scope.TEMPLATE, "invoice.notice", rows=12), "12 messages wait for it."),
        (hold(Scope.DOMAIN, "example.com"), "Mail to example.com is held"),
        (hold(Scope.DOMAIN, ".example.com"), "Mail to all of example.com's subdomains is held"),
        (hold(until=NOW + timedelta(minutes=90)), "it ends by itself in 90 min."),
    ],
)
def test_a_hold_says_what_since_when_by_whom_and_why(held: Held, said: str) -> None:
    (found,) = about("hold", holds=(held,))
    assert found.level is Level.WARNING
    assert said in found.sentence
    assert found.command == f"outbox-admin unhold {held.hold.id}"
    assert found.subject == str(held.hold.id)


def test_of_many_holds_some_are_told_and_the_others_counted() -> None:
    assert len(about("hold", holds=(hold(),) * 8)) == 5
    assert [one.sentence for one in about("holds", holds=(hold(),) * 8)] == ["And 3 other holds."]


def test_rows_of_a_hold_that_is_over_are_no_alarm() -> None:
    (found,) = about("hold", held={"hold": Count(300)})
    assert found.level is Level.OK
    assert "300 held messages are being given back" in found.sentence


def test_a_revoked_key_is_not_called_missing_and_nothing_is_rejected_by_time() -> None:
    key = MissingKey(
        "0102030405060708", Count(2), NOW - timedelta(hours=99), timedelta(hours=72), revoked=True
    )
    (found,) = about("key", missing_keys=(key,))
    assert found.sentence == "2 messages wait for key 0102030405060708, which the key ring calls revoked."
    assert "rejected" not in found.sentence
    assert found.command == "outbox-admin keys declare-lost 0102030405060708"
    assert "until then they wait" in found.cure


def test_redirected_mail_is_said_and_is_no_fault() -> None:
    (found,) = about("redirect", redirected_to=("test@dev.example",))
    assert found.level is Level.OK
    assert "test@dev.example" not in found.sentence + found.cure
    assert worst(findings(replace(CALM, redirected_to=("test@dev.example",)))) is Level.OK


def test_what_is_overdue_because_of_a_pause_points_at_the_pause() -> None:
    pause = Pause("primary", None, REFUSED, NOW, NOW)
    (slow,), (stopped,) = about("due", oldest_due=400.0), about("due", oldest_due=400.0, pauses=(pause,))
    assert (slow.level, stopped.level) == (Level.CRITICAL, Level.CRITICAL)
    assert "does not keep up" in slow.cure
    assert stopped.cure == "It waits for what is named here."


@pytest.mark.parametrize(
    ("late", "expected"), [(None, Level.WARNING), (100.0, Level.WARNING), (400.0, Level.CRITICAL)]
)
def test_a_paused_route_is_as_bad_as_what_it_delays_and_stands_before_it(
    late: float | None, expected: Level
) -> None:
    figures = replace(CALM, oldest_due=late, pauses=(Pause("primary", None, REFUSED, NOW, NOW),))
    first = findings(figures)[0]
    assert (first.topic, first.level) == ("route", expected)
