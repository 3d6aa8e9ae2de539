"""A worker that is killed, stopped or told to end at each step of the walk."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import MakeGround
from tests.faults.ground import Ground
from tests.faults.halting import Halt
from tests.faults.nursery import Child
from tests.faults.steps import Fate, Step
from tests.support.relay import Relay, then
from tests.support.waiting import until

#: Steps 4 and 6 are met at the relay: the command has come, and is not answered yet. Step 7 needs nothing but the
#: answer: it lies between DOT and DECIDING.
ANSWERS = {
    "4 CONNECT": "220 relay.example ready",
    "6 MAIL": "250 2.1.0 OK",
    "6 RCPT": "250 2.1.5 OK",
    "6 DATA": "354 go ahead",
    "6 DOT": "250 2.0.0 OK",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What a kill at a step costs in the end."""

    copies: int = 1
    attempts: int = 2
    maybe: bool = False


KILLED = {
    Step.CLAIMING: Cost(attempts=1),  # the claim was never committed
    Step.CLAIMED: Cost(),
    Step.OPENED: Cost(),
    "4 CONNECT": Cost(),
    Step.MARKING: Cost(),
    Step.MARKED: Cost(maybe=True),
    "6 MAIL": Cost(maybe=True),
    "6 RCPT": Cost(maybe=True),
    "6 DATA": Cost(maybe=True),
    "6 DOT": Cost(copies=2, maybe=True),
    Step.DECIDING: Cost(copies=2, maybe=True),
    Step.RECORDING: Cost(copies=2, maybe=True),
    Step.RECORDED: Cost(attempts=1),
}


class Scene:
    """One row, and a first worker that waits at ``step`` for what shall befall it."""

    def __init__(self, step: str, folder: Path) -> None:
        self.step = step
        self.halt = Halt(folder / "halt")

    def relay(self) -> Relay:
        """The same for both workers; only the first meets the halt."""
        if self.step not in ANSWERS:
            return Relay({})
        verb = self.step.split()[1]
        return Relay({verb: [then(self.halt.action(taken=verb == "DOT"), ANSWERS[self.step])]}, {})

    def start(self, ground: Ground) -> Child:
        """Returns when it waits."""
        fate = None if self.step in ANSWERS else Fate(Step(self.step), "halt", flag=str(self.halt.flag))
        first = ground.start(fate)
        ground.enqueue()
        assert self.halt.reached(), ground.logs()
        return first


def ids(step: str) -> str:
    return step.replace(" ", "-")


def identical(relay: Relay) -> bool:
    """All copies are the same octets, the Message-ID among them."""
    return len({message.content for message in relay.messages}) == 1


def finished(ground: Ground) -> Any:
    assert ground.settles(), ground.logs()
    (row,) = ground.rows()
    return row


@pytest.mark.parametrize("step", KILLED, ids=ids)
def test_oc_43_killed_at_each_step_costs_what_was_said(
    make_each_ground: MakeGround, tmp_path: Path, step: str
) -> None:
    scene, cost = Scene(step, tmp_path), KILLED[step]
    with scene.relay() as relay:
        ground = make_each_ground(relay.port)
        first = scene.start(ground)
        first.signal(signal.SIGKILL)
        assert ground.nursery.wait(first) == -signal.SIGKILL
        scene.halt.release()
        ground.start()
        ground.lapse(first)
        row = finished(ground)
        assert (row.state, row.attempts, row.maybe_delivered) == ("sent", cost.attempts, cost.maybe)
        assert len(relay.messages) == cost.copies
        assert identical(relay)
        lost = ["worker_lost"] * (cost.attempts - 1)
        assert [attempt.outcome for attempt in ground.attempts(row.id)] == lost


#: Where a stopped worker keeps no transaction open; on SQLite it would keep everybody waiting.
STOPPED = {
    Step.CLAIMED: Cost(),
    Step.OPENED: Cost(),
    "4 CONNECT": Cost(),
    Step.MARKED: Cost(maybe=True),
    "6 RCPT": Cost(maybe=True),
    "6 DATA": Cost(maybe=True),
    "6 DOT": Cost(copies=2, maybe=True),
    Step.DECIDING: Cost(copies=2, maybe=True),
    Step.RECORDED: Cost(attempts=1),
}


@pytest.mark.parametrize("step", STOPPED, ids=ids)
def test_oc_46_stopped_past_its_lease_and_continued_it_changes_nothing(
    make_each_ground: MakeGround, tmp_path: Path, step: str
) -> None:
    scene, cost = Scene(step, tmp_path), STOPPED[step]
    with scene.relay() as relay:
        ground = make_each_ground(relay.port)
        first = scene.start(ground)
        ground.freeze(first)
        ground.shift.advance(minutes=6)
        ground.start()
        before = finished(ground)
        scene.halt.release()
        first.signal(signal.SIGCONT)
        assert ground.nursery.until(lambda: not first.stopped)
        assert until(lambda: ground.has_begun(first))
        first.signal(signal.SIGTERM)
        assert ground.nursery.wait(first) == 0, ground.logs()
        row = finished(ground)
        assert row == before
        assert (row.state, row.attempts, row.maybe_delivered) == ("sent", cost.attempts, cost.maybe)
        assert len(relay.messages) == cost.copies
        assert identical(relay)


TOLD = [*STOPPED, Step.CLAIMING, Step.MARKING, Step.RECORDING]


@pytest.mark.parametrize("step", TOLD, ids=ids)
def test_oc_59_told_to_end_at_each_step_it_leaves_nothing_behind(
    make_each_ground: MakeGround, tmp_path: Path, step: str
) -> None:
    scene = Scene(step, tmp_path)
    with scene.relay() as relay:
        ground = make_each_ground(relay.port)
        first = scene.start(ground)
        first.signal(signal.SIGTERM)
        assert until(lambda: "stopping" in first.words())
        scene.halt.release()
        assert ground.nursery.wait(first) == 0, ground.logs()
        (row,) = ground.rows()
        assert (row.state, row.attempts) in {("sent", 1), ("pending", 0)}
        ground.start()
        row = finished(ground)
        assert (row.state, row.attempts, row.maybe_delivered) == ("sent", 1, False)
        assert len(relay.messages) == 1
