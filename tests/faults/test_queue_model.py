"""A stateful property test of the whole queue: producers, workers, faults, clock and operators, in any order.

More of it: ``pytest tests/faults/test_queue_model.py --hypothesis-profile=thorough``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import hypothesis
import pytest
import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from outbox_admin.core.hold import Scope
from tests.faults.model.interference import Fate, Kind
from tests.faults.model.planted import PLANTS, Plant
from tests.faults.model.world import OTHERS, VERDICTS, Act, Play, Stage, World

FEW = 20  #: worlds in the test command
STEPS = 25

numbers = st.integers(0, 9)
seconds = st.sampled_from([1, 11, 61, 200, 301, 700, 4000])
deeds = st.sampled_from(["retry", "resend", "arrived", "give up", "cancel", "suppress"])
fates = st.none() | st.builds(Fate, st.sampled_from(Kind), st.integers(1, 12))
options = st.fixed_dictionaries(
    {
        "on_unknown": st.sampled_from(["resend", "hold"]),
        "max_attempts": st.integers(1, 3),
        "priority": st.integers(0, 2),
        "supersede_key": st.sampled_from([None, None, "s"]),
        "template_key": st.sampled_from(["", "t"]),
    }
)


def _advance(span: float) -> Act:
    return lambda world: world.advance(span)


def _work(number: int, sweeps: bool, plays: list[Play]) -> Act:
    return lambda world: world.work(number, plays, sweeps=sweeps)


def _operate(number: int, what: str) -> Act:
    return lambda world: world.operate(number, what)


def _enqueue(wishes: dict[str, Any]) -> Act:
    return lambda world: world.enqueue(1, **wishes)


def _lose(span: float, number: int) -> Act:
    """The worker stands still for so long, and another one looks after its rows."""

    def act(world: World) -> None:
        world.advance(span)
        world.work(number, sweeps=True)

    return act


simple = st.builds(Play, st.sampled_from([*VERDICTS, *OTHERS]))
meanwhile = st.one_of(
    st.builds(_advance, seconds),
    st.builds(_lose, st.sampled_from([200.0, 301.0]), numbers),
    st.builds(_work, numbers, st.booleans(), st.lists(simple, max_size=2)),
    st.builds(_operate, numbers, deeds),
    st.builds(_enqueue, options),
)
plays = st.lists(
    st.builds(Play, st.sampled_from([*VERDICTS, *OTHERS]), st.lists(meanwhile, max_size=3).map(tuple)),
    max_size=4,
)


class Queue(RuleBasedStateMachine):
    stage: Stage

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.stage)

    @rule(
        recipients=st.integers(1, 2),
        kept=st.booleans() | st.just(True),
        wishes=options,
        life=st.none() | seconds,
    )
    def enqueue(self, recipients: int, kept: bool, wishes: dict[str, Any], life: float | None) -> None:
        now = self.world.clock.now()
        expires = {} if life is None else {"expires_at": now + timedelta(seconds=life)}
        self.world.enqueue(recipients, kept=kept, **wishes, **expires)

    @rule(wishes=options, wait=seconds)
    def schedule(self, wishes: dict[str, Any], wait: float) -> None:
        not_before = self.world.clock.now() + timedelta(seconds=wait)
        self.world.enqueue(1, not_before=not_before, **wishes)

    @rule(number=numbers)
    def enqueue_again(self, number: int) -> None:
        self.world.enqueue_again(number)

    @rule(number=numbers)
    def withdraw(self, number: int) -> None:
        self.world.withdraw(number)

    @rule(number=numbers, plays=plays, fate=fates, sweeps=st.booleans())
    def work(self, number: int, plays: list[Play], fate: Fate | None, sweeps: bool) -> None:
        self.world.work(number, plays, fate, sweeps=sweeps)

    @rule(number=numbers)
    def work_in_peace(self, number: int) -> None:
        self.world.work(number, sweeps=True)

    @rule()
    def start_worker(self) -> None:
        self.world.start_worker()

    @rule(number=numbers)
    def kill(self, number: int) -> None:
        self.world.kill(number)

    @rule(span=seconds)
    def advance(self, span: float) -> None:
        self.world.advance(span)

    @rule(number=numbers, what=deeds)
    def operate(self, number: int, what: str) -> None:
        self.world.operate(number, what)

    @rule(wide=st.booleans())
    def hold(self, wide: bool) -> None:
        self.world.hold(*((Scope.EVERYTHING, "") if wide else (Scope.TEMPLATE, "t")))

    @rule()
    def lift(self) -> None:
        self.world.lift()

    @rule()
    def purge(self) -> None:
        self.world.purge()

    @invariant()
    def laws_hold(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        self.world.finish()


def run(stage: Stage, **changes: Any) -> None:
    machine = type("QueueOnStage", (Queue,), {"stage": stage})
    few = hypothesis.settings.get_current_profile_name() == "outbox"
    given = {"max_examples": FEW, "stateful_step_count": STEPS} if few else {}
    settings = hypothesis.settings(**(given | {"deadline": None} | changes))
    run_state_machine_as_test(machine, settings=settings)


@pytest.fixture
def stage(engine: sa.Engine) -> Iterator[Stage]:
    stage = Stage(engine)
    yield stage
    stage.interference.end()


def test_no_order_of_events_breaks_the_laws_of_the_queue(stage: Stage) -> None:
    run(stage)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(
    sqlite_engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, plant: Plant
) -> None:
    stage = Stage(sqlite_engine)
    plant(monkeypatch)
    try:
        with pytest.raises(AssertionError):
            run(stage, max_examples=400, derandomize=True, database=None, phases=[hypothesis.Phase.generate])
    finally:
        stage.interference.end()
