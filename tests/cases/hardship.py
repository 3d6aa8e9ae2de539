"""A scene in which the relay is at fault: rows, an ordinary message behind them, and what must have become of them.

The words are those of the cases: SENT, TEMP(n), PERM, CONFIG. Each is asserted as a whole: state, attempts, payload,
due time, and that the relay saw no more than it had to.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any, Self
from uuid import UUID

import sqlalchemy as sa

from outbox_admin import Entry, Message
from outbox_admin.core.backoff import Backoff
from outbox_admin.core.lifecycle import Policy
from outbox_admin.db.schema import email_attempt, email_outbox, outbox_route, outbox_route_worker
from outbox_admin.delivery.dispatcher import Cycle, Dispatcher
from outbox_admin.delivery.parts import Rules
from tests.cases.scene import Scene
from tests.delivery.room import CAREFUL, Room, drain, route_to
from tests.support.relay import Relay, Script

#: The breaker's first wait, and a little more.
WAIT = timedelta(seconds=13)
QUICK = 1.0  #: stands for the 15 s of a reply, where a relay is silent
_numbers = count(1)
COUNTING = replace(CAREFUL, breaker=False, policy=Policy(Backoff(), counts_channel_faults=True))


class Hardship(Scene):
    """``with Hardship(room, {"RCPT": ["550 no"]}) as scene:``; ``route`` changes how the worker speaks to the relay."""

    def __init__(
        self,
        room: Room,
        *scripts: Script,
        route: dict[str, Any] | None = None,
        rules: Rules = CAREFUL,
        **relay: Any,
    ) -> None:
        super().__init__(room, *scripts, **relay)
        self.route = route or {}
        self.rules = rules

    def __enter__(self) -> Self:
        """In an outbox without rows, and without anything that an earlier scene taught its workers."""
        with self.room.engine.begin() as db:
            for table in (email_attempt, email_outbox, outbox_route, outbox_route_worker):
                db.execute(sa.delete(table))
        self.relay.__enter__()
        self.lane = self.new_lane()
        return self

    def new_lane(self) -> Dispatcher:
        """Of a worker that has been busy; it takes all of a batch at once."""
        route = replace(route_to(self.relay.port), **self.route)
        lane = self.room.dispatcher(route, rules=self.rules)
        for asked in (1, 2, 4, 8, 16):
            lane._pace.note(asked=asked, got=asked, seconds=0.01)
        return lane

    def begin(self, number: int = 1, **options: Any) -> list[UUID]:
        """So many rows and the ordinary message behind them, due now."""
        names = [*(f"r{one}" for one in range(number)), "control"]
        wishes = [options] * number + [{}]
        entries = [
            Entry(Message(f"{name}@example.com", "Hello", "Hello Jane\n"), f"hard:{next(_numbers)}", **wish)
            for name, wish in zip(names, wishes, strict=True)
        ]
        with self.room.engine.begin() as db:
            *rows, self.control = (one.id for one in self.room.outbox.enqueue_many(db, entries))
        self.room.clock.stay_ahead()
        return rows

    def play(self) -> list[Cycle]:
        """Cycle after cycle until no more is due; the worker outlives them."""
        cycles = drain(self.lane)
        assert not any(cycle.failed for cycle in cycles)
        self._check_rows()
        return cycles

    def later(self, span: timedelta = WAIT) -> None:
        self.room.clock.advance(seconds=span.total_seconds())
        self.play()

    @property
    def connections(self) -> int:
        return len(self.relay.connections)

    def assert_sent(self, *row_ids: UUID, attempts: int = 1, copies: int = 1) -> None:
        for row_id in row_ids:
            row = self.room.row(row_id)
            assert (row.state, row.attempts, row.payload) == ("sent", attempts, None), row.cause_kind
            assert row.sent_at is not None
            identifiers = {self._message_id(one.content or b"") for one in self.arrived(row_id)}
            assert (len(self.copies(row_id)), len(identifiers)) == (copies, 1)

    def assert_temp(self, row_id: UUID, attempts: int = 1, *, doubtful: bool = False) -> None:
        """TEMP: waits for the backoff of its attempt, counted from the failure; its payload is kept."""
        row = self.room.row(row_id)
        assert (row.state, row.attempts, row.maybe_delivered) == ("pending", attempts, doubtful)
        assert row.payload is not None
        wait = self.rules.policy.backoff.delay(attempts, roll=0.0)
        assert row.due_at - self.room.attempts(row_id)[-1].ended_at == timedelta(seconds=wait)

    def assert_perm(self, row_id: UUID) -> None:
        """PERM: its payload is cleared, and nothing of it is ever said to the relay again."""
        row = self.room.row(row_id)
        assert (row.state, row.attempts, row.payload, row.key_id) == ("rejected", 1, None, None)
        named = sum(row.recipient.encode() in command for command in self.commands("RCPT"))
        self.later(timedelta(hours=5))
        assert self.room.row(row_id) == row
        assert sum(row.recipient.encode() in command for command in self.commands("RCPT")) == named <= 1

    def assert_config(self, *row_ids: UUID, phase: str, seen: str | int | None = None) -> None:
        """CONFIG: nothing counted, nothing lost; the route pauses, so that a further cycle connects to nobody."""
        for row_id in row_ids:
            row = self.room.row(row_id)
            assert (row.state, row.attempts, row.held) == ("pending", 0, None)
            assert row.payload is not None
        met = [row for row in map(self.room.row, row_ids) if row.tries]
        assert {row.cause_phase for row in met} == {phase}
        if seen is not None:
            assert {seen} <= {value for row in met for value in (row.cause_code, row.cause_kind)}
        before = self.connections
        assert self.play()[-1].paused
        assert self.connections == before

    def copies(self, row_id: UUID) -> list[bytes]:
        """What the relay has of a row, accepted or not."""
        return [one.content for one in self.arrived(row_id) if one.content is not None]

    @staticmethod
    def _message_id(content: bytes) -> bytes:
        head = content.partition(b"\r\n\r\n")[0]
        return next(line for line in head.split(b"\r\n") if line.startswith(b"Message-ID:"))


def replayed(scene: Hardship, *scripts: Script) -> None:
    """From the next connection on the relay plays these scripts."""
    relay: Relay = scene.relay
    relay.scripts = (*[relay.scripts[0]] * len(relay.connections), *scripts)
