"""When an idle worker looks: often after work, seldom later, at once when it is woken, and never all the time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from outbox_admin.delivery.rhythm import AFTER_WAKE, GAP, SHORTEST, Rhythm

CYCLE = 2.0


def rhythm(*, roll: float = 0.0) -> Rhythm:
    """After its first turn, at second 0, which found nothing."""
    made = Rhythm(cycle=CYCLE, roll=lambda: roll, now=0.0)
    made.turned(0.0)
    return made


def looks(of: Rhythm, *, until: float, wakes: Sequence[float] = ()) -> list[float]:
    """Plays the poller: each look takes no time and finds nothing; somebody wakes now and then."""
    found: list[float] = []
    waiting = list(wakes)
    while (now := min([of.next_at, *waiting[:1]])) < until:
        if waiting and now == waiting[0]:
            of.wake(waiting.pop(0))
            continue
        found.append(round(now, 6))
        if of.wants_turn(now):
            of.turned(now)
        of.looked(now, now, busy=False)
    return found


def gaps(moments: Sequence[float]) -> list[float]:
    return [round(later - earlier, 3) for earlier, later in pairwise(moments)]


def test_it_looks_often_after_work_and_then_once_a_cycle() -> None:
    after_work = rhythm()
    after_work.looked(0.0, 0.0, busy=True)
    found = looks(after_work, until=9.0)
    assert gaps([0.0, *found])[:5] == [SHORTEST, 0.1, 0.2, 0.4, 0.8]
    assert gaps(found)[-3:] == [CYCLE, CYCLE, CYCLE]


def test_chance_keeps_processes_from_looking_together() -> None:
    early, late = rhythm(roll=0.999), rhythm(roll=0.0)
    assert round(early.next_at, 2) == 1.5
    assert late.next_at == CYCLE


def test_e40_a_wake_is_answered_at_once_and_after_5_and_20_ms() -> None:
    assert looks(rhythm(), until=1.06, wakes=[1.0]) == [1.0, 1.005, 1.02]


def test_after_a_wake_in_vain_it_goes_on_looking_for_a_commit_that_takes_long() -> None:
    assert gaps(looks(rhythm(), until=1.5, wakes=[0.5]))[2:5] == [SHORTEST, 0.1, 0.2]


def test_e40_a_flood_of_wakes_never_makes_it_look_all_the_time() -> None:
    found = looks(rhythm(), until=1.0, wakes=[number / 1000 for number in range(1000)])
    assert len(found) < 120
    assert min(gaps(found)) >= GAP
    assert max(gaps(found)) <= AFTER_WAKE[-1]


def test_e40_once_a_look_has_found_something_only_the_last_one_follows() -> None:
    woken = rhythm()
    woken.wake(0.5)
    woken.looked(0.5, 0.501, busy=False, found=True)
    assert looks(woken, until=0.58) == [0.52, 0.57]


def test_e40_a_wake_right_after_a_look_waits_for_its_distance() -> None:
    just_looked = rhythm()
    just_looked.looked(0.5, 0.5, busy=False)
    just_looked.wake(0.501)
    assert just_looked.next_at == 0.5 + GAP


def test_e40_whoever_wakes_during_the_answer_to_another_is_answered_too() -> None:
    """Its commit may end after the last look of the other's."""
    assert looks(rhythm(), until=0.55, wakes=[0.5, 0.518]) == [0.5, 0.505, 0.52, 0.525, 0.54]


def test_a_row_that_becomes_due_is_looked_for_then() -> None:
    waiting = rhythm()
    for _ in range(8):
        waiting.looked(0.0, 0.0, busy=False, due_in=0.7)
    assert waiting.next_at == 0.7


def test_rows_that_become_due_one_after_the_other_do_not_make_it_look_all_the_time() -> None:
    waiting = rhythm()
    waiting.looked(0.0, 0.0, busy=False, due_in=0.0001)
    assert waiting.next_at == GAP


def test_a_database_that_does_not_answer_is_asked_again_by_the_next_turn() -> None:
    woken = rhythm()
    woken.wake(0.5)
    woken.failed()
    assert woken.next_at == CYCLE


def test_a_hurried_turn_comes_at_once() -> None:
    hurried = rhythm()
    hurried.hurry(0.5)
    assert hurried.wants_turn(0.5)
