"""As much of PostgreSQL's protocol as a program in between needs: frames, the start of a session, its state.

No password, no TLS: the tests' servers trust the loopback address.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

_LENGTH = struct.Struct("!I")
#: Requests for encryption come in the place of a start.
_TLS, _GSS = 80877103, 80877104
COMMIT = b"Q" + _LENGTH.pack(4 + len(b"COMMIT\0")) + b"COMMIT\0"
SYNC = b"S" + _LENGTH.pack(4)
READY = b"Z"
IDLE = b"I"
BYE = b"X"


async def read_start(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """A client's first message, after its requests for encryption were declined."""
    while True:
        head = await reader.readexactly(4)
        body = await reader.readexactly(_LENGTH.unpack(head)[0] - 4)
        if _LENGTH.unpack(body[:4])[0] not in (_TLS, _GSS):
            return head + body
        writer.write(b"N")


def is_tls_request(message: bytes) -> bool:
    code: int = _LENGTH.unpack(message[4:])[0]
    return code == _TLS


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """One message with its type; raises IncompleteReadError at the end of the stream."""
    head = await reader.readexactly(5)
    return head + await reader.readexactly(_LENGTH.unpack(head[1:])[0] - 4)


async def first_of(*steps: Coroutine[Any, Any, Any]) -> Any:
    """The result, or the exception, of the step that ends first; the others are given up."""
    tasks = [asyncio.create_task(step) for step in steps]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Middle:
    """A server in a thread of its own that stands before PostgreSQL; subclasses say what it does with a client."""

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=type(self).__name__, daemon=True)
        self._open: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    async def prepare(self) -> None:
        """Before the first client."""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server_port, limit=1 << 20)
        self._writers.add(writer)
        return reader, writer

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = self._run(self.listen(self.serve))
        self._run(self.prepare())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def listen(self, serve: Any) -> int:
        """On a port of its own; the port."""

        async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._open.add(task)
            self._writers.add(writer)
            try:
                await serve(reader, writer)
            except (OSError, EOFError, asyncio.CancelledError):
                pass  # one of the two sides has gone
            finally:
                self._open.discard(task)
                await self.drop(writer)

        server = await asyncio.start_server(served, "127.0.0.1", 0, limit=1 << 20)
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def drop(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()

    def _run(self, step: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(60)

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        for writer in list(self._writers):
            await self.drop(writer)
        await asyncio.sleep(0)
