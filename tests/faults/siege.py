"""One long run: workers on one queue, killed at random moments or with their database restarted under them."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from tests.faults.ground import Ground
from tests.faults.nursery import Child
from tests.faults.recorder import Recorder
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

#: A run in which nothing moves for so many seconds has failed.
STANDSTILL = 120.0


@dataclass(frozen=True, slots=True)
class Orders:
    """What a run does. ``jitter``: the longest wait, in seconds, between reaching a count and the kill."""

    kills: int = 0
    restarts: int = 0
    messages: int = 1000
    workers: int = 4
    lanes: int = 2
    on_unknown: str = "resend"
    jitter: float = 0.02
    seed: int = 1


@dataclass
class Siege:
    """``begun`` holds for each kill the rows whose hand-over the killed worker had begun."""

    ground: Ground
    relay: Recorder
    orders: Orders
    server: PostgresServer | None = None
    begun: list[list[UUID]] = field(default_factory=list)
    exits: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.orders.seed)
        self.workers: list[Child] = []
        self._asked_at, self._done = 0.0, False

    def run(self) -> None:
        orders = self.orders
        self.ground.enqueue(orders.messages, on_unknown=orders.on_unknown)
        self.workers = [self._worker() for _ in range(orders.workers)]
        blows = ["kill"] * orders.kills + ["restart"] * orders.restarts
        self.dice.shuffle(blows)
        for number, blow in enumerate(blows):
            self._await_progress(len(blows) - number)
            if blow == "kill":
                self._kill()
            else:
                self._restart(number)
        self._finish()

    def _worker(self) -> Child:
        return self.ground.start(lanes=self.orders.lanes)

    def _await_progress(self, blows_left: int) -> None:
        """Until a random share of what is left has reached the relay, and a moment longer."""
        left = self.orders.messages - len(self.relay.copies)
        target = self.relay.accepted + int(self.dice.uniform(0, 2 * left / (blows_left + 1)))
        reached = self._moving(lambda: self.relay.accepted >= target or self._all_is_done())
        assert reached, f"nothing moves:\n{self.ground.logs()[-4000:]}"
        time.sleep(self.dice.uniform(0, self.orders.jitter))

    def _all_is_done(self) -> bool:
        """Towards the end: what is uncertain may never reach the relay. The database is asked twice a second."""
        if self.orders.messages - len(self.relay.copies) > self.orders.messages // 10:
            return False
        if time.monotonic() > self._asked_at + 0.5:
            self._asked_at, self._done = time.monotonic(), self.ground.settled()
        return self._done

    def _moving(self, condition: Callable[[], bool]) -> bool:
        """Waits for ``condition`` as long as the relay keeps getting messages."""
        while not condition():
            if not until(self._beyond(self.relay.accepted, condition), seconds=STANDSTILL, every=0.001):
                return False
        return True

    def _beyond(self, accepted: int, condition: Callable[[], bool]) -> Callable[[], bool]:
        return lambda: self.relay.accepted > accepted or condition()

    def _kill(self) -> None:
        victim = self.workers.pop(self.dice.randrange(len(self.workers)))
        victim.signal(signal.SIGKILL)
        assert self.ground.nursery.wait(victim) == -signal.SIGKILL, victim.words()
        self.workers.append(self._worker())
        self.begun.append(self.ground.lapse(victim))

    def _restart(self, number: int) -> None:
        """In turn politely and as a crash; away for up to two seconds."""
        assert self.server is not None
        self.ground.engine.dispose()  # the test's own connections
        self.server.stop(signal.SIGINT if number % 2 else signal.SIGQUIT)
        time.sleep(self.dice.uniform(0, 2.0))
        self.server.start()

    def _finish(self) -> None:
        assert self._moving(self.ground.settled), f"the queue stands still:\n{self.ground.logs()[-4000:]}"
        assert until(lambda: all(map(self.ground.has_begun, self.workers))), self.ground.logs()[-4000:]
        for worker in self.workers:
            worker.signal(signal.SIGTERM)
        self.exits = [self.ground.nursery.wait(worker) for worker in self.workers]


@dataclass(frozen=True, slots=True)
class Findings:
    """What database and relay say afterwards.

    ``lost``: accepted from the producer, and neither at the relay nor kept for an operator. ``doubles``: copies beyond
    the first; ``unmarked``: those on rows that do not say so. ``hits``: kills that caught a hand-over; ``exposed``: the
    hand-overs they caught, ``worst`` at most with one kill.
    """

    messages: int
    states: dict[str, int]
    lost: int
    doubles: int
    unmarked: int
    changed: int
    uncertain: int
    kills: int
    hits: int
    exposed: int
    worst: int
    most_attempts: int
    payloads_astray: int
    exits: list[int]


def judge(siege: Siege) -> Findings:
    rows, copies = siege.ground.rows(), siege.relay.copies
    taken = {one.id: copies.get(one.message_id.strip("<").partition("@")[0], []) for one in rows}
    doubled = {one.id: len(taken[one.id]) - 1 for one in rows if len(taken[one.id]) > 1}
    kept = {"failed", "uncertain"}
    begun = [len(ids) for ids in siege.begun]
    return Findings(
        messages=siege.orders.messages,
        states=dict(Counter(one.state for one in rows)),
        lost=siege.orders.messages - sum(1 for one in rows if taken[one.id] or one.state in kept),
        doubles=sum(doubled.values()),
        unmarked=sum(doubled.get(one.id, 0) for one in rows if not one.maybe_delivered),
        changed=sum(1 for each in taken.values() if len(set(each)) > 1),
        uncertain=sum(1 for one in rows if one.state == "uncertain"),
        kills=len(begun),
        hits=sum(1 for number in begun if number),
        exposed=sum(begun),
        worst=max(begun, default=0),
        most_attempts=max(one.attempts for one in rows),
        payloads_astray=sum(1 for one in rows if (one.payload is not None) != (one.state in kept)),
        exits=siege.exits,
    )


def complaints(siege: Siege, found: Findings) -> list[str]:
    """Where a run broke a promise; none is what is wanted."""
    orders, window = siege.orders, siege.ground.settings.get("window", "auto")
    wrong = {
        "messages were lost": found.lost,
        "doubles are not marked": found.unmarked,
        "copies differ": found.changed,
        "payloads are where they should not be": found.payloads_astray,
        "more doubles than hand-overs that were cut": max(0, found.doubles - found.exposed),
        "workers that were left alone did not end well": sum(1 for code in found.exits if code),
        "rows are missing": orders.messages - sum(found.states.values()),
    }
    if window == "1" or orders.on_unknown == "hold":
        wrong["more hand-overs cut by one kill than lanes"] = max(0, found.worst - orders.lanes)
    if orders.on_unknown == "hold":
        exposed = {row_id for ids in siege.begun for row_id in ids}
        uncertain = {one.id for one in siege.ground.rows() if one.state == "uncertain"}
        wrong["doubles although at most once was asked for"] = found.doubles
        wrong["hand-overs that were cut and are not uncertain"] = len(exposed - uncertain)
        if not orders.restarts:
            wrong["uncertain without a reason"] = len(uncertain - exposed)
    return [f"{number} {text}" for text, number in wrong.items() if number]
