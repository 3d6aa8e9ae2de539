"""A transaction pooler, as strict as one can be: no two transactions of a client meet the same server session."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass

from tests.faults.pgwire import BYE, IDLE, READY, Middle, first_of, read_frame, read_start

_PROTOCOL = struct.pack("!I", 196608)
_HELLO = {b"R", b"S", b"K"}  #: accepted; a parameter's value; the key for a cancel request


@dataclass(slots=True)
class Session:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    hello: bytes


class Pooler(Middle):
    """``sessions`` of one database for any number of clients, handed out in turn, one transaction each time.

    ``served`` counts the transactions.
    """

    def __init__(self, server_port: int, database: str, *, sessions: int = 6) -> None:
        super().__init__(server_port)
        self.served = 0
        self._database = database
        self._sessions = sessions
        self._free: asyncio.Queue[Session] = asyncio.Queue()

    async def prepare(self) -> None:
        for _ in range(self._sessions):
            await self._add_session()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_start(reader, writer)
        session = await self._free.get()
        self._free.put_nowait(session)
        writer.write(session.hello)
        while (frame := await read_frame(reader))[:1] != BYE:
            session = await self._free.get()
            try:
                await self._transaction(session, frame, reader, writer)
            except BaseException:
                await self.drop(session.writer)  # left in the middle: as a pooler does, it is not used again
                await self._add_session()
                raise
            self._free.put_nowait(session)
            self.served += 1

    async def _transaction(
        self, session: Session, frame: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """From its first message to the answer that nothing is open any more. A client waits for its answers."""
        session.writer.write(frame)
        writer.write(await first_of(_answers(session.reader, writer), _forward(reader, session.writer)))

    async def _add_session(self) -> None:
        reader, writer = await self.connect()
        words = b"user\0postgres\0database\0" + self._database.encode() + b"\0\0"
        writer.write(struct.pack("!I", 8 + len(words)) + _PROTOCOL + words)
        hello = b""
        while (frame := await read_frame(reader))[:1] != READY:
            assert frame[:1] in _HELLO, frame
            hello += frame
        self._free.put_nowait(Session(reader, writer, hello + frame))


async def _answers(from_server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Passes answers on up to the last of the transaction, which it gives."""
    while True:
        frame = await read_frame(from_server)
        if frame[:1] == READY and frame[5:6] == IDLE:
            return frame
        writer.write(frame)


async def _forward(reader: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
    while True:
        to_server.write(await read_frame(reader))
