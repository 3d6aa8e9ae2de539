"""A way to PostgreSQL that is cut at one COMMIT: before it arrives, or after it was done and before that is told.

Where one statement is a transaction by itself, its Sync stands for the COMMIT.

Which connection, a worker says itself in the moment before it commits (steps.py); it is known by its port.
"""

from __future__ import annotations

import asyncio
import json

from tests.faults.pgwire import COMMIT, READY, SYNC, Middle, first_of, read_frame, read_start


class Cutter(Middle):
    """``with Cutter(server.port) as cutter``: ``cutter.port`` for the database, ``cutter.orders`` for the orders."""

    def __init__(self, server_port: int) -> None:
        super().__init__(server_port)
        self.orders = 0
        self.cuts: list[str] = []
        self._ordered: dict[int, str] = {}

    async def prepare(self) -> None:
        self.orders = await self.listen(self._take_order)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await self.connect()
        to_server.write(await read_start(reader, writer))
        port = writer.get_extra_info("peername")[1]
        silent = asyncio.Event()
        try:
            await first_of(
                self._forth(reader, to_server, port, silent), self._back(from_server, writer, silent)
            )
        finally:
            await self.drop(to_server)

    async def _forth(
        self, reader: asyncio.StreamReader, to_server: asyncio.StreamWriter, port: int, silent: asyncio.Event
    ) -> None:
        """Ends where the connection is to be cut before a COMMIT."""
        while True:
            frame = await read_frame(reader)
            when = self._ordered.pop(port, "") if frame in (COMMIT, SYNC) else ""
            if when:
                self.cuts.append(when)
            if when == "before":
                return
            if when == "after":
                silent.set()
            to_server.write(frame)

    async def _back(
        self, from_server: asyncio.StreamReader, writer: asyncio.StreamWriter, silent: asyncio.Event
    ) -> None:
        """Ends with the answer that it shall keep to itself."""
        while True:
            frame = await read_frame(from_server)
            if not silent.is_set():
                writer.write(frame)
            elif frame[:1] == READY:
                return

    async def _take_order(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        order = json.loads(await reader.readline())
        self._ordered[order["port"]] = order["when"]
        writer.write(b"!")
        await writer.drain()
