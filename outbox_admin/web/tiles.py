"""The overview's figures, each a link to the list that it counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import url_for

from outbox_admin.core.health import Count
from outbox_admin.core.words import span
from outbox_admin.db.reads.overview import Tiles


@dataclass(frozen=True, slots=True)
class Tile:
    """``tone`` colours a figure that asks for attention."""

    label: str
    value: str
    note: str
    url: str
    tone: str = ""


def tiles(counts: Tiles, hour: Mapping[str, int], oldest_due: float | None) -> tuple[Tile, ...]:
    """``hour``: outcomes of the last hour; ``oldest_due`` in seconds."""
    return (*_waiting(counts, oldest_due), *_ended(counts, hour))


def _waiting(counts: Tiles, oldest_due: float | None) -> tuple[Tile, ...]:
    late = f"oldest {span(oldest_due)} late" if oldest_due is not None else "nothing overdue"
    stale = f"{counts.stale} past their lease" if counts.stale.value else "in workers' hands"
    return (
        Tile("Due now", str(counts.due), late, _messages(overdue=1)),
        Tile("Waiting", str(counts.later), "to retry, or scheduled", _messages(state="pending", sort="due")),
        Tile(
            "Sending", str(counts.sending), stale, _messages(state="sending"), _if_any(counts.stale, "warn")
        ),
        Tile(
            "Held",
            str(counts.held),
            "by a hold, or for a key",
            _messages(held=1),
            _if_any(counts.held, "warn"),
        ),
    )


def _ended(counts: Tiles, hour: Mapping[str, int]) -> tuple[Tile, ...]:
    sent, simulated = hour.get("accepted", 0), hour.get("simulated", 0)
    recent = f"{counts.rejected_last_hour} in the last hour"
    lately = "in the last hour" + (f" · {simulated:,} simulated" if simulated else "")
    return (
        Tile(
            "Failed", str(counts.failed), "attempts used up", _dead("failed"), _if_any(counts.failed, "bad")
        ),
        Tile(
            "Uncertain",
            str(counts.uncertain),
            "may have arrived",
            _dead("uncertain"),
            _if_any(counts.uncertain, "warn"),
        ),
        Tile("Rejected", str(counts.rejected), recent, _dead("rejected")),
        Tile("Sent", f"{sent:,}", lately, _messages(state="sent")),
    )


def _if_any(count: Count, tone: str) -> str:
    return tone if count.value else ""


def _messages(**filters: Any) -> str:
    return url_for("outbox.messages.show", **filters)


def _dead(state: str) -> str:
    return url_for("outbox.dead.listed", state=state)
