"""What really happened, told by the relay and by those who acted: rows are judged by it, not by what they say.

Each row has a recipient of its own, so the relay's account needs nothing but envelopes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(slots=True)
class Truth:
    """``taken``: copies that the relay took responsibility for, by recipient. The others count by row."""

    taken: Counter[str] = field(default_factory=Counter)
    owed: dict[UUID, str] = field(
        default_factory=dict
    )  #: rows whose enqueue was committed, and their recipients
    resends: Counter[UUID] = field(default_factory=Counter)  #: by an operator who was asked or insisted
    settled: set[UUID] = field(default_factory=set)  #: an operator said that it arrived
    purged: set[UUID] = field(default_factory=set)  #: retention may have taken its payload

    def copies(self, row_id: UUID) -> int:
        return self.taken[self.owed[row_id]]
