"""Reads a list's address: filters, order, page. Whatever stands there is clamped, never believed."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from flask import request

from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads.messages import Ask, Filter
from outbox_admin.db.reads.walks import Position
from outbox_admin.web.signing import Signer

SIZES = (25, 50, 100)
LONGEST = 200


@dataclass(frozen=True, slots=True)
class Spot:
    """A page's place in a list; ``broken`` when the address was tampered with or is from another secret."""

    at: Position | None = None
    backwards: bool = False
    broken: bool = False


def text(name: str) -> str:
    """Without NUL, which PostgreSQL refuses."""
    return request.args.get(name, "").replace("\0", "").strip()[:LONGEST]


def flag(name: str) -> bool:
    return request.args.get(name) == "1"


def size() -> int:
    given = request.args.get("size", "")
    return int(given) if given in map(str, SIZES) else SIZES[1]


def states() -> tuple[State, ...]:
    wanted = {State(name) for name in request.args.getlist("state") if name in State.__members__.values()}
    return tuple(state for state in State if state in wanted)


def cursor(signer: Signer, order: str, position: Position) -> str:
    """``order`` names list and sort: a place in one order means nothing in another."""
    value = position.value.isoformat() if isinstance(position.value, datetime) else position.value
    return signer.sign(f"cursor:{order}", json.dumps([position.id.hex, value]).encode())


def spot(signer: Signer, order: str) -> Spot:
    for name, backwards in (("after", False), ("before", True)):
        token = request.args.get(name)
        if token:
            position = _position(signer.check(f"cursor:{order}", token))
            return Spot(position, backwards, broken=position is None)
    return Spot()


def _position(signed: bytes | None) -> Position | None:
    """What we signed has our shape."""
    if signed is None:
        return None
    row_id, value = json.loads(signed)
    return Position(UUID(hex=row_id), datetime.fromisoformat(value) if isinstance(value, str) else value)


def message_filter(recipient_key: str) -> Filter:
    return Filter(
        states=states(),
        template=text("template"),
        text=text("q"),
        recipient_key=recipient_key,
        overdue=flag("overdue"),
        held=flag("held"),
        doubles=flag("doubles"),
        key=text("key"),
    )


def sort(wanted: Filter) -> str:
    """An order that an index has, or the usual one."""
    given = request.args.get("sort", "")
    return given if given in wanted.sorts else wanted.sorts[0]


def ask(order: str, place: Spot) -> Ask:
    down = request.args.get("order", "asc" if order == "due" else "desc") == "desc"
    return Ask(sort=order, descending=down, size=size(), at=place.at, backwards=place.backwards)


def pack(ids: Sequence[UUID]) -> str:
    """The rows that a list shows, for its next poll."""
    return base64.urlsafe_b64encode(b"".join(row_id.bytes for row_id in ids)).decode().rstrip("=")


def unpack(packed: str) -> list[UUID]:
    """At most as many as a page holds; nothing from what is no such list."""
    try:
        raw = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    except (binascii.Error, ValueError):
        return []
    return [UUID(bytes=raw[at : at + 16]) for at in range(0, len(raw) - 15, 16)][: SIZES[-1]]
