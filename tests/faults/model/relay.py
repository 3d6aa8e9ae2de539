"""The relay as a script: what it does with the next message, and what others do while it is in its hands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outbox_admin.core.cause import Kind, Phase
from outbox_admin.core.classify import Break, Reply
from outbox_admin.delivery.compose import Composed
from outbox_admin.delivery.worker import Worker
from tests.faults.model import laws

if TYPE_CHECKING:
    from tests.faults.model.world import World

Act = Callable[["World"], None]


@dataclass(frozen=True, slots=True)
class Play:
    """What the relay does with the next message, and what others do while it is in its hands."""

    verdict: str = "accept"
    meanwhile: tuple[Act, ...] = ()


#: Verdict -> whether the relay takes the message, and its answer.
VERDICTS: dict[str, tuple[bool, Reply | Break]] = {
    "accept": (True, Reply(Phase.DOT, 250, "2.0.0 Ok: queued as MODEL")),
    "accept, unheard": (True, Break(Phase.DOT, Kind.NETWORK, begun=True)),
    "lost before it was taken": (False, Break(Phase.CONTENT, Kind.NETWORK, begun=True)),
    "lost in the content": (False, Break(Phase.CONTENT, Kind.NETWORK)),
    "defer": (False, Reply(Phase.RCPT, 451, "4.3.0 later")),
    "defer at the dot": (False, Reply(Phase.DOT, 452, "4.2.2 full")),
    "reject": (False, Reply(Phase.RCPT, 550, "5.1.1 unknown")),
    "busy": (False, Reply(Phase.MAIL, 421, "4.3.2 closing")),
    "policy": (False, Reply(Phase.RCPT, 554, "5.7.1 denied")),
    "too large": (False, Break(Phase.MAIL, Kind.TOO_LARGE, "too large")),
}
OTHERS = ("no connection", "killed before", "killed after", "raises")


class ScriptedSession:
    """One lane's way to the relay."""

    def __init__(self, world: World, worker: Worker) -> None:
        self.world, self.worker = world, worker
        self.connected = False

    def open(self) -> Break | None:
        if self.world.next_verdict == "no connection":
            self.world.plays.pop(0)
            return Break(Phase.CONNECT, Kind.NETWORK)
        return None

    def probe(self) -> Break | None:
        return self.open()

    def deliver(self, message: Composed, *, then: Composed | None = None) -> Reply | Break:
        world, recipient = self.world, message.recipient
        with world.judging():
            laws.handover(world.row_of(recipient), worker=self.worker.name, now=world.clock.now())
        with world.hand(recipient):
            return self._answer(recipient, world.plays.pop(0) if world.plays else Play())

    def _answer(self, recipient: str, play: Play) -> Reply | Break:
        world = self.world
        if play.verdict == "killed before":
            world.actor.die()
        for act in play.meanwhile:
            act(world)
        if play.verdict == "killed after":
            world.truth.taken[recipient] += 1
            world.actor.die()
        if play.verdict == "raises":
            raise ValueError("a fault of our own, in the middle of it")
        taken, answer = VERDICTS.get(play.verdict, VERDICTS["accept"])
        world.truth.taken[recipient] += taken
        if isinstance(answer, Reply) and taken:
            world._heard.append(recipient)
        return answer

    def quit(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
