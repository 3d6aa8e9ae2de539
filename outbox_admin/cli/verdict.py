"""Whether the demo ended as it had to: states by name, and what the relay really has. Reads only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from outbox_admin.cli.stage import Stage
from outbox_admin.core.lifecycle import LIVE, WITH_PAYLOAD, State
from outbox_admin.db.schema import email_outbox as outbox
from outbox_admin.demo.cast import CAST, Part


@dataclass(frozen=True, slots=True)
class Ending:
    """One of the cast. ``as_named``: state, attempts, payload and relay are what its name says."""

    name: str
    state: str
    attempts: int
    as_named: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """``attempts`` by state; ``caught``: mails at the relay.

    ``wrong``: ids of what is sent but not there, there twice, or there and not sent.
    """

    states: dict[str, int]
    attempts: dict[str, int]
    named: list[Ending]
    caught: int
    wrong: list[str]

    @property
    def good(self) -> bool:
        return not self.wrong and all(ending.as_named for ending in self.named)


def is_finished(stage: Stage) -> bool:
    """Whether nothing waits and nothing is being sent."""
    with stage.engine.connect() as db:
        live = sa.select(outbox.c.id).where(outbox.c.state.in_(LIVE)).limit(1)
        return db.execute(live).first() is None


def judge(stage: Stage) -> Verdict:
    columns = (outbox.c.id, outbox.c.state, outbox.c.attempts, outbox.c.message_id, outbox.c.has_payload)
    with stage.engine.connect() as db:
        rows = db.execute(sa.select(*columns)).all()
    copies = Counter(_message_id(message.content) for message in stage.relay.messages)
    by_id = {row.id: row for row in rows}
    attempts: Counter[str] = Counter()
    for row in rows:
        attempts[row.state] += row.attempts
    return Verdict(
        states=dict(Counter(row.state for row in rows)),
        attempts=dict(attempts),
        named=[_ending(part, by_id[stage.roles[part.name]], copies) for part in CAST],
        caught=copies.total(),
        wrong=[str(row.id) for row in rows if copies[row.message_id] != (row.state == State.SENT)],
    )


def _ending(part: Part, row: Any, copies: Counter[str | None]) -> Ending:
    kept = row.has_payload == (part.state in WITH_PAYLOAD)
    there = copies[row.message_id] == part.delivered
    same = (row.state, row.attempts) == (part.state, part.attempts)
    return Ending(part.name, row.state, row.attempts, as_named=same and kept and there)


def _message_id(content: bytes) -> str | None:
    """From the caught octets, not from our own table."""
    for line in content.partition(b"\r\n\r\n")[0].split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"message-id":
            return value.strip().decode("ascii", "replace")
    return None
