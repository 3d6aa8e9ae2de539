"""What enqueue answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from outbox_admin.core.lifecycle import State


@dataclass(frozen=True, slots=True)
class ReceiptRow:
    """One recipient's row, which has an outcome of its own. ``cancelled`` at once: the address is suppressed."""

    recipient: str = field(repr=False)
    id: UUID
    state: State


@dataclass(frozen=True, slots=True)
class Receipt:
    """``created`` False: the key was known already, and the rows are those of then, whatever their text was."""

    id: UUID
    created: bool
    rows: tuple[ReceiptRow, ...]

    @property
    def suppressed(self) -> tuple[ReceiptRow, ...]:
        """Rows that were cancelled at once, since their address is on the suppression list; only where ``created``."""
        return tuple(row for row in self.rows if self.created and row.state is State.CANCELLED)
