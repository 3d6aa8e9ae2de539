"""A point at which a worker, or the relay that it talks to, waits for the test. The point is a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.relay import Action, Conversation
from tests.support.waiting import until


class Halt:
    """``flag`` exists while somebody waits here."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def reached(self) -> bool:
        return until(self.flag.exists)

    def release(self) -> None:
        self.flag.unlink(missing_ok=True)

    def action(self, *, taken: bool = False) -> Action:
        """For a scripted relay: it answers no further. ``taken``: it has the message already, whatever follows."""

        async def act(talk: Conversation) -> None:
            if taken:
                talk.announce(b"250")
            self.flag.touch()
            await self._released()

        return act

    async def _released(self) -> None:
        while self.flag.exists():  # noqa: ASYNC110 - the event is a file, which other processes share
            await asyncio.sleep(0.005)
