"""A relay that catches: it takes mail on the loopback address, keeps it in memory and passes nothing on.

For the demo and the tests. Plain SMTP without TLS or login, in a thread of its own; not a server for real mail.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType

_PATH = re.compile(rb"(?:MAIL FROM|RCPT TO):<([^>]*)>", re.IGNORECASE)
_EHLO = (
    "250-catcher.example\r\n250-PIPELINING\r\n250-SIZE 67108864\r\n250-8BITMIME\r\n250 ENHANCEDSTATUSCODES"
)


class Verdict(Enum):
    """What becomes of mail to one recipient."""

    ACCEPT = "250 2.1.5 OK"
    DEFER = "451 4.3.2 Mailbox is busy, try again later"
    REFUSE = "550 5.1.1 Mailbox is unknown"
    STALL = "250 2.1.5 OK for now"  #: the final dot is never answered


@dataclass(frozen=True, slots=True)
class Caught:
    """One accepted message; ``content`` without the dots that were stuffed into it."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes = field(repr=False)


def accept_all(recipient: str) -> Verdict:
    """The plain relay."""
    return Verdict.ACCEPT


class ByName:
    """The demo's relay: the local part says what happens, up to a plus sign; unknown names are accepted."""

    def __init__(self) -> None:
        self._met: set[str] = set()
        self._repaired = threading.Event()

    def repair(self) -> None:
        """The printed switch: ``always-deferred`` is accepted from now on."""
        self._repaired.set()

    def __call__(self, recipient: str) -> Verdict:
        match recipient.partition("@")[0].partition("+")[0]:
            case "deferred-once" if recipient not in self._met:
                self._met.add(recipient)
                return Verdict.DEFER
            case "always-deferred" if not self._repaired.is_set():
                return Verdict.DEFER
            case "refused":
                return Verdict.REFUSE
            case "stalls":
                return Verdict.STALL
            case _:
                return Verdict.ACCEPT


class Catcher:
    """``with Catcher() as relay: relay.port, relay.messages``. ``port`` 0 takes a free one."""

    def __init__(
        self, host: str = "127.0.0.1", port: int = 0, *, decide: Callable[[str], Verdict] = accept_all
    ) -> None:
        self.host = host
        self.port = port
        self.decide = decide
        self.messages: list[Caught] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="catcher", daemon=True)

    def __enter__(self) -> Catcher:
        self._thread.start()
        starting = asyncio.start_server(self._converse, self.host, self.port, limit=1 << 20)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        """Ends every conversation, one that is being accepted included, and closes its socket."""
        self._server.close()
        own = {asyncio.current_task()}
        while talks := asyncio.all_tasks() - own:
            for talk in talks:
                talk.cancel()
            await asyncio.wait(talks)
        await asyncio.sleep(0)  # sockets that were closed last are closed in the next round

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, ValueError):
                await _Talk(self, reader, writer).run()
            writer.close()
        except asyncio.CancelledError:
            writer.transport.abort()  # nobody waits for a client that does not read
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()


class _Talk:
    """One connection."""

    def __init__(self, relay: Catcher, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._relay, self._reader, self._writer = relay, reader, writer
        self._sender = ""
        self._recipients: list[str] = []
        self._stalls = False

    async def run(self) -> None:
        self._say("220 catcher.example ready")
        while line := await self._reader.readline():
            verb = line[:4].upper()
            self._say(await self._reply(verb.decode("ascii", "replace").strip(), line))
            await self._writer.drain()
            if verb == b"QUIT":
                return

    def _say(self, reply: str) -> None:
        self._writer.write(reply.encode("ascii") + b"\r\n")

    async def _reply(self, verb: str, line: bytes) -> str:
        match verb:
            case "EHLO":
                return _EHLO
            case "HELO" | "RSET" | "NOOP":
                self._recipients = []
                return "250 2.0.0 OK"
            case "MAIL" if path := _PATH.match(line):
                self._sender, self._recipients, self._stalls = path[1].decode(), [], False
                return "250 2.1.0 OK"
            case "RCPT" if path := _PATH.match(line):
                return self._recipient(path[1].decode())
            case "DATA" if self._recipients:
                return await self._content()
            case "QUIT":
                return "221 2.0.0 Bye"
            case _:
                return "503 5.5.1 Not now, or not known"

    def _recipient(self, recipient: str) -> str:
        verdict = self._relay.decide(recipient)
        if verdict in (Verdict.ACCEPT, Verdict.STALL):
            self._recipients.append(recipient)
            self._stalls = self._stalls or verdict is Verdict.STALL
        return verdict.value

    async def _content(self) -> str:
        self._say("354 End data with a dot")
        lines = []
        while (line := await self._reader.readline()) != b".\r\n":
            if not line:
                raise ConnectionAbortedError
            lines.append(line.removeprefix(b"."))
        if self._stalls:
            await self._reader.read()  # until the client has given up and closed
            raise ConnectionAbortedError
        self._relay.messages.append(Caught(self._sender, tuple(self._recipients), b"".join(lines)))
        self._recipients = []
        return f"250 2.0.0 OK queued as CATCH{len(self._relay.messages)}"
