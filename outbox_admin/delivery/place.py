"""Who works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """The worker's name, and the shard of its minute counts."""

    worker: str
    shard: int = 0
