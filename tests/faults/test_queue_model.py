"""A stateful property test of the whole queue: producers, workers, faults, clock and operators, in any order.

More of it: ``pytest tests/faults/test_queue_model.py --hypothesis-profile=thorough``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import hypothesis
import pytest
import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from outbox_admin.core.hold import Scope
from tests.faults.model.interference import Fate, Kind
from tests.faults.model.planted import PLANTS, SOME_PLANTS, Plant, planted
from tests.faults.model.relay import OTHERS, VERDICTS, Act, Play
from tests.faults.model.world import Stage, World

FEW = 12  #: worlds in the test command
STEPS = 20
THOROUGH = hypothesis.settings.get_current_profile_name() == "thorough"
PATIENCE = 25  #: worlds until a planted fault must have shown

HOLDS = ((Scope.TEMPLATE, "t"), (Scope.EVERYTHING, ""))
numbers = st.integers(0, 9)
seconds = st.sampled_from([1, 11, 61, 200, 301, 700, 4000])
deeds = st.sampled_from(["retry", "resend", "arrived", "give up", "cancel", "suppress"])
fates = st.none() | st.builds(Fate, st.sampled_from(Kind), st.integers(1, 24))
options = st.fixed_dictionaries(
    {
        "on_unknown": st.sampled_from(["resend", "hold"]),
        "max_attempts": st.integers(1, 3),
        "priority": st.integers(0, 2),
        "supersede_key": st.sampled_from([None, None, None, None, "s"]),
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


def _hold(world: World) -> None:
    world.hold(*HOLDS[0])


def _replace(world: World) -> None:
    world.enqueue(1, supersede_key="s")


def _suppress(world: World) -> None:
    for number in range(len(world.rows())):
        world.operate(number, "suppress")


def _lose(span: float, number: int) -> Act:
    """The worker stands still for so long, and another one looks after its rows."""

    def act(world: World) -> None:
        world.advance(span)
        world.work(number, sweeps=True)

    return act


simple = st.builds(Play, st.sampled_from([*VERDICTS, *OTHERS]))
meanwhile = st.one_of(
    st.builds(_advance, seconds),
    st.builds(_lose, st.sampled_from([100.0, 200.0, 301.0, 301.0]), numbers),
    st.builds(_work, numbers, st.booleans(), st.lists(simple, max_size=2)),
    st.builds(_operate, numbers, deeds),
    st.builds(_enqueue, options),
    st.just(_hold),
)
losses = st.builds(_lose, st.sampled_from([100.0, 301.0]), st.just(1))
#: Each stands against the message that is claimed and not yet marked.
CHANGES: list[Act] = [_hold, _replace, _suppress]
plays = st.lists(
    st.builds(Play, st.sampled_from([*VERDICTS, *OTHERS]), st.lists(meanwhile, max_size=3).map(tuple)),
    max_size=4,
)


#: What a relay, or its absence, leaves open.
doubts = st.sampled_from(["killed before", "killed after", "accept, unheard", "raises", "accept", "defer"])
RARE: list[Callable[[World, int], None]] = [
    World.enqueue_again,
    World.withdraw,
    World.kill,
    lambda world, number: world.start_worker(),
    lambda world, number: world.purge(),
    lambda world, number: world.hold(*HOLDS[number // 9]),
    lambda world, number: world.lift(),
    lambda world, number: world.lift(),
]


class Queue(RuleBasedStateMachine):
    """``stage`` comes with a subclass."""

    stage: Stage

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.stage)

    @initialize(wishes=st.lists(options, min_size=2, max_size=5))
    def begin(self, wishes: list[dict[str, Any]]) -> None:
        for wish in wishes:
            self.world.enqueue(1, **wish)

    @rule(recipients=st.integers(1, 2), kept=st.booleans(), wishes=options, life=st.none() | seconds)
    def enqueue(self, recipients: int, kept: bool, wishes: dict[str, Any], life: float | None) -> None:
        now = self.world.clock.now()
        expires = {} if life is None else {"expires_at": now + timedelta(seconds=life)}
        self.world.enqueue(recipients, kept=kept, **wishes, **expires)

    @rule(wishes=options, wait=seconds)
    def schedule(self, wishes: dict[str, Any], wait: float) -> None:
        self.world.enqueue(1, not_before=self.world.clock.now() + timedelta(seconds=wait), **wishes)

    @rule(number=numbers, plays=plays, fate=fates, sweeps=st.booleans(), span=st.sampled_from([0, 11, 61]))
    def work(self, number: int, plays: list[Play], fate: Fate | None, sweeps: bool, span: float) -> None:
        self.world.advance(span)
        self.world.work(number, plays, fate, sweeps=sweeps)

    @rule(verdict=doubts, between=st.lists(losses | meanwhile, max_size=2), fate=fates, wish=options)
    def come_to_grief(
        self, verdict: str, between: list[Act], fate: Fate | None, wish: dict[str, Any]
    ) -> None:
        """With a fresh message in hand; then time passes, and another worker comes."""
        self.world.enqueue(1, **wish)
        self.world.work(0, [Play(verdict, tuple(between))], fate)
        self.world.check()
        self.world.advance(301)
        self.world.work(1, sweeps=True)

    @rule(change=st.sampled_from(CHANGES))
    def change_one_s_mind(self, change: Act) -> None:
        """While one message is on its way and the next one is claimed already."""
        self.world.lift()
        self.world.enqueue(1, priority=0)
        self.world.enqueue(1, template_key="t", supersede_key="s", priority=0)
        self.world.work(0, [Play("accept", (change,))])
        self.world.lift()

    @rule(span=seconds, number=numbers)
    def work_later(self, span: float, number: int) -> None:
        self.world.advance(span)
        self.world.work(number, sweeps=True)

    @rule(number=numbers, what=deeds)
    def operate(self, number: int, what: str) -> None:
        self.world.operate(number, what)

    @rule(number=numbers, deed=st.sampled_from(RARE))
    def happen(self, number: int, deed: Callable[[World, int], None]) -> None:
        deed(self.world, number)

    @invariant()
    def laws_hold(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        self.world.finish()


def run(stage: Stage, **changes: Any) -> None:
    machine = type("QueueOnStage", (Queue,), {"stage": stage})
    given = {} if THOROUGH else {"max_examples": FEW, "stateful_step_count": STEPS}
    settings = hypothesis.settings(**(given | {"deadline": None} | changes))
    run_state_machine_as_test(machine, settings=settings)


@pytest.fixture
def stage(engine: sa.Engine) -> Iterator[Stage]:
    stage = Stage(engine)
    yield stage
    stage.interference.end()


def test_no_order_of_events_breaks_the_laws_of_the_queue(stage: Stage) -> None:
    run(stage)


@pytest.mark.parametrize("plant", PLANTS if THOROUGH else SOME_PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(sqlite_engine: sa.Engine, plant: Plant) -> None:
    stage = Stage(sqlite_engine)
    try:
        with planted(plant), pytest.raises(AssertionError):
            run(
                stage,
                max_examples=PATIENCE,
                derandomize=True,
                database=None,
                phases=[hypothesis.Phase.generate],
            )
    finally:
        stage.interference.end()
