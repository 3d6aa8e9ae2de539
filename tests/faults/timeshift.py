"""One file that tells many processes how far their clocks are ahead of the true time, so that none must wait."""

from __future__ import annotations

import mmap
import struct
from datetime import timedelta
from pathlib import Path

_SECONDS = struct.Struct("d")


class Shift:
    """``shift.advance(minutes=6)`` in the test; every worker that was given the file sees it at once."""

    def __init__(self, file: Path) -> None:
        if not file.exists():
            file.write_bytes(_SECONDS.pack(0.0))
        self.file = file
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), _SECONDS.size)

    def seconds(self) -> float:
        value: float = _SECONDS.unpack_from(self._shared)[0]
        return value

    def advance(self, **span: float) -> None:
        """Takes what timedelta takes."""
        _SECONDS.pack_into(self._shared, 0, self.seconds() + timedelta(**span).total_seconds())

    def close(self) -> None:
        self._shared.close()
