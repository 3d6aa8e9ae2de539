"""One relay, one worker, two doors: what every case about addresses, fields and bodies is played on.

The writer's door is :class:`Outbox`; the other is a row that somebody else sealed and inserted. Whatever a case hands
in, :meth:`Scene.send` puts an ordinary message behind it and checks the rules that hold in every case.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin import MessageRefused
from outbox_admin.core.message import AnyMessage
from outbox_admin.crypto.envelope import Binding, key_id_of
from outbox_admin.db.schema import email_attempt, email_outbox
from outbox_admin.delivery.dispatcher import Cycle, Dispatcher
from outbox_admin.ids import new_id
from tests.delivery.room import Room, route_to
from tests.support import mail
from tests.support.relay import Relay, Script, Transaction

BATCH = 20
CYCLES = 3  #: within which the ordinary message behind a bad one is sent

_COMMAND = re.compile(rb"(MAIL|RCPT|DATA|RSET|QUIT|EHLO|HELO|NOOP)\b")
_ERROR_TEXTS = ("cause_phase", "cause_kind", "cause_enhanced", "cause_hint", "cause_ref")
_numbers = count(1)
_other_work = sa.Table("orders", sa.MetaData(), sa.Column("number", sa.Integer, primary_key=True))


def each(name: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like parametrize, yet all values are played in one scene: a database for each of them would take minutes."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def played(**fixtures: Any) -> None:
            for value in values:
                try:
                    test(**fixtures, **{name: value})
                except BaseException as error:
                    error.add_note(f"{name} = {value!a}")
                    raise

        played.__dict__.update(test.__dict__)  # marks
        signature = inspect.signature(test)
        others = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        played.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        played.__name__, played.__doc__, played.__module__ = test.__name__, test.__doc__, test.__module__
        return played

    return decorate


class Scene:
    """``with Scene(room, {"RCPT": "550 no"}, offer=["SIZE"]) as scene:``; scripts and options are the relay's."""

    def __init__(self, room: Room, *scripts: Script, **relay: Any) -> None:
        self.room = room
        self.relay = Relay(*scripts, **relay)
        self.smtputf8 = False  #: whether octets above 127 are wanted in envelopes and headers

    def __enter__(self) -> Self:
        _other_work.create(self.room.engine)
        self.relay.__enter__()
        self.lane = self.new_lane()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lane.close()
        self.relay.__exit__(kind, error, trace)

    def new_lane(self) -> Dispatcher:
        """Of a worker of its own, one that has been busy: it takes a whole batch at a time."""
        lane = self.room.dispatcher(route_to(self.relay.port))
        for asked in (1, 2, 4, 8, 16):
            lane._pace.note(asked=asked, got=asked, seconds=0.01)
        return lane

    def write(self, message: AnyMessage | None = None, **fields: Any) -> UUID:
        """By the writer."""
        return self.room.enqueue(message=message or mail.message(**fields))

    def refuse(
        self, message: AnyMessage | None = None, options: dict[str, Any] | None = None, **fields: Any
    ) -> MessageRefused:
        """The writer refuses it: nothing is added, and the caller's transaction commits its other work."""
        rows, work = self._count(email_outbox), self._count(_other_work)
        options = {"idempotency_key": f"bad:{next(_numbers)}"} | (options or {})
        with self.room.engine.begin() as db:
            db.execute(sa.insert(_other_work).values(number=next(_numbers)))
            with pytest.raises(MessageRefused) as caught:
                self.room.outbox.enqueue(db, message or mail.message(**fields), **options)
            db.execute(sa.insert(_other_work).values(number=next(_numbers)))
        assert (self._count(email_outbox), self._count(_other_work)) == (rows, work + 2)
        assert str(caught.value).isprintable()
        return caught.value

    def place(self, document: bytes | None = None, *, recipient: str = mail.JANE, **fields: Any) -> UUID:
        """Behind the writer's back: ``document``, or the minimal payload to ``recipient`` changed by ``fields``."""
        minimal = {"v": 1, "to": recipient, "subject": "Hello", "text": "Hello Jane\n"}
        content = json.dumps(minimal | fields).encode() if document is None else document
        row_id, key = new_id(), f"hand:{next(_numbers)}"
        payload = self.room.ring.seal(content, Binding(row_id, key, recipient, ""))
        is_postgres = self.room.engine.dialect.name == "postgresql"
        now = sa.func.statement_timestamp() if is_postgres else self.room.clock.now()  # as the writer does
        times = dict.fromkeys(("created_at", "due_at", "first_due_at"), now)
        with self.room.engine.begin() as db:
            db.execute(
                sa.insert(email_outbox).values(
                    id=row_id,
                    idempotency_key=key,
                    recipient=recipient,
                    recipient_key=recipient.casefold(),
                    key_id=key_id_of(payload),
                    payload=payload,
                    payload_size=len(payload),
                    **times,
                )
            )
        return row_id

    def send(self, lane: Dispatcher | None = None) -> None:
        """An ordinary message behind all that waits, three cycles, and the rules of every case."""
        lane = lane or self.lane
        self.room.clock.stay_ahead()
        control = self.room.enqueue("control@example.com")
        cycles = [lane.cycle() for _ in range(CYCLES)]
        assert self.state(control) == "sent", self.room.states()
        self._check_worker(lane, cycles)
        self._check_rows()
        self._check_wire()

    def state(self, row_id: UUID) -> str:
        found: str = self.room.row(row_id).state
        return found

    def states(self, row_ids: list[UUID]) -> set[str]:
        return {self.state(row_id) for row_id in row_ids}

    def assert_rejected(self, *row_ids: UUID, kind: str = "payload_invalid") -> None:
        """For good, before any relay heard of it, its payload cleared."""
        for row_id in row_ids:
            row = self.room.row(row_id)
            assert (row.state, row.cause_phase, row.cause_kind) == ("rejected", "prepare", kind)
            assert (row.payload, row.key_id, row.attempts) == (None, None, 1)
            assert not self.arrived(row_id)

    def arrived(self, row_id: UUID) -> list[Transaction]:
        """All that came to the relay of this row, told by its Message-ID."""
        mark = str(row_id).encode()
        return [one for one in self.relay.transactions if mark in (one.content or b"")]

    def accepted(self, row_id: UUID) -> Transaction:
        """The one copy that the relay accepted of a row that is `sent`."""
        row = self.room.row(row_id)
        assert row.state == "sent"
        copies = [one for one in self.arrived(row_id) if one.accepted]
        (found,) = copies if len(copies) == 1 else [c for c in copies if c.recipients == [row.recipient]]
        return found

    def content(self, row_id: UUID) -> bytes:
        return self.accepted(row_id).content or b""

    def commands(self, verb: str) -> list[bytes]:
        """Of all connections, as they came."""
        return [
            command
            for connection in self.relay.connections
            for command in connection.commands
            if command.upper().startswith(verb.encode())
        ]

    def _count(self, table: sa.Table) -> int:
        with self.room.engine.begin() as db:
            return db.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()

    def _check_worker(self, lane: Dispatcher, cycles: list[Cycle]) -> None:
        assert not any(cycle.failed or cycle.paused for cycle in cycles)
        assert lane._common.tally.of("error") == 0, "a fault of the worker's own, not of the message"

    def _check_rows(self) -> None:
        for row in self.room.rows():
            assert row.state != "sending"
            assert row.state != "pending" or row.payload is not None
        for text in self._error_texts():
            assert text.isprintable()
            assert len(text.encode()) <= 4 * len(text) <= 4 * 500

    def _error_texts(self) -> Iterator[str]:
        with self.room.engine.begin() as db:
            attempts = list(db.execute(sa.select(email_attempt)))
        for row in [*self.room.rows(), *attempts]:
            yield from (text for name in _ERROR_TEXTS if (text := getattr(row, name)))
        tries = {row.id: row.tries for row in self.room.rows()}
        for row in self.room.rows():
            if row.detail is not None:
                yield self.room.ring.open_detail(row.detail, row_id=row.id, attempt=tries[row.id])

    def _check_wire(self) -> None:
        """Judged by its octets alone."""
        known = {row.recipient for row in self.room.rows()}
        for connection in self.relay.connections:
            octets = bytes(connection.octets)
            assert octets.count(b"\r\n") == octets.count(b"\r") == octets.count(b"\n")
            assert b"\0" not in octets
            assert self.smtputf8 or octets.isascii()
            assert max(map(len, octets.split(b"\r\n"))) <= 998 + 1  # and the stuffed dot
            assert all(len(command) <= 510 and _COMMAND.match(command) for command in connection.commands)
        for one in self.relay.transactions:
            assert len(one.recipients) == 1
            assert one.recipients[0] in known or one.recipients[0].partition("@")[2].startswith("xn--")
            assert one.content is None or one.content.count(b"\nBcc:") == 0
        assert len(self.relay.messages) == self.room.states()["sent"]
        assert len(self.commands("MAIL")) == len(self.relay.transactions) == len(self.commands("RCPT"))
