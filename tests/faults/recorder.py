"""A quick relay for thousands of messages: accepts everything, writes down every octet and every copy.

Scripted answers are tests/support/relay's; this one has none, so that it keeps up with several processes.
"""

from __future__ import annotations

import asyncio
import random
import re
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

_MESSAGE_ID = re.compile(rb"^Message-ID: <([^@>]+)@", re.MULTILINE)
_END = b"\r\n.\r\n"
_REPLIES = {
    b"EHLO": b"250-recorder.example\r\n250-PIPELINING\r\n250 SIZE 67108864\r\n",
    b"MAIL": b"250 2.1.0 OK\r\n",
    b"RCPT": b"250 2.1.5 OK\r\n",
    b"DATA": b"354 go ahead\r\n",
    b"RSET": b"250 2.0.0 OK\r\n",
    b"NOOP": b"250 2.0.0 OK\r\n",
    b"QUIT": b"221 2.0.0 bye\r\n",
}


@dataclass(slots=True)
class Heard:
    """One connection, octet by octet."""

    octets: bytearray = field(default_factory=bytearray)


class Recorder:
    """``copies``: the contents taken for each Message-ID's left side.

    ``pause``: the longest time in seconds that an answer to a final dot takes. A copy counts before it is answered:
    from its final dot on the relay has it, whatever becomes of the answer.
    """

    def __init__(self, *, pause: float = 0.0, seed: int = 0) -> None:
        self.copies: defaultdict[str, list[bytes]] = defaultdict(list)
        self.accepted = 0
        self.heard: list[Heard] = []
        self.port = 0
        self.pause = pause
        self.dice = random.Random(seed)
        self.loop = asyncio.new_event_loop()
        self.transports: set[asyncio.Transport] = set()
        self._thread = threading.Thread(target=self.loop.run_forever, name="recorder", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        starting = self.loop.create_server(lambda: _Talk(self), "127.0.0.1", 0, backlog=1000)
        self._server = asyncio.run_coroutine_threadsafe(starting, self.loop).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def take(self, content: bytes) -> None:
        found = _MESSAGE_ID.search(content)
        self.copies[found[1].decode() if found else ""].append(content)
        self.accepted += 1

    async def _stop(self) -> None:
        self._server.close()
        for transport in list(self.transports):
            transport.abort()
        await asyncio.sleep(0)  # transports that were closed last say so in the next round


class _Talk(asyncio.Protocol):
    def __init__(self, relay: Recorder) -> None:
        self._relay = relay
        self._unread = bytearray()
        self._in_content = False
        self._heard = Heard()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._relay.transports.add(transport)
        self._relay.heard.append(self._heard)
        transport.write(b"220 recorder.example ready\r\n")

    def connection_lost(self, error: Exception | None) -> None:
        self._relay.transports.discard(self._transport)

    def data_received(self, octets: bytes) -> None:
        self._heard.octets += octets
        self._unread += octets
        while self._content() if self._in_content else self._command():
            pass

    def _command(self) -> bool:
        line, found, rest = bytes(self._unread).partition(b"\r\n")
        if not found:
            return False
        self._unread = bytearray(rest)
        verb = line[:4].upper()
        self._transport.write(_REPLIES.get(verb, b"500 5.5.2 not recognised\r\n"))
        if verb == b"DATA":
            self._in_content, self._unread = True, bytearray(b"\r\n") + self._unread
        elif verb == b"QUIT":
            self._transport.close()
        return True

    def _content(self) -> bool:
        content, found, rest = bytes(self._unread).partition(_END)
        if not found:
            return False
        self._in_content, self._unread = False, bytearray(rest)
        self._relay.take(content[2:].replace(b"\r\n..", b"\r\n.") + b"\r\n")
        reply = f"250 2.0.0 Ok: queued as R{self._relay.accepted}\r\n".encode()
        if not self._relay.pause:
            self._transport.write(reply)
        else:  # the client waits for this answer, so no other can overtake it
            wait = self._relay.dice.uniform(0, self._relay.pause)
            self._relay.loop.call_later(wait, self._transport.write, reply)
        return True
