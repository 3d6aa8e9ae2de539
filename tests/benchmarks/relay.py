"""Our own relay, a process of its own: ``python -m tests.benchmarks.relay --port 2525 --record FILE``.

Takes all mail. ``--round-trip`` delays whatever a client has written as a link of that length would: what comes in one
write is answered together after one round trip, and several writes may be under way. ``--dot`` is the time that a
relay spends on each content. What was accepted is written to ``--record`` in the manner of smtp-sink's dump, with the
second (of the machine's monotonic clock, which all processes share) at which its MAIL was read.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import IO

from tests.support.ports import HOST

GREETING = b"220 relay.example ESMTP\r\n"
END = b"\r\n.\r\n"


class Session(asyncio.Protocol):
    """One connection. ``take`` gets each accepted message."""

    def __init__(self, round_trip: float, dot: float, ehlo: bytes, take: Callable[[bytes], None]) -> None:
        self._round_trip = round_trip
        self._dot = dot
        self._ehlo = ehlo
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._travelling: deque[tuple[bytes, float]] = deque()
        self._held = b""
        self._inside = self._busy = self._over = False
        self._envelope = b""
        self._moment = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A handshake takes a round trip, and the greeting comes at the end of another.
        self._later(2 * self._round_trip, lambda: transport.write(GREETING))

    def data_received(self, data: bytes) -> None:
        self._travelling.append((data, time.monotonic()))
        self._later(self._round_trip, self._arrive)

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        if seconds:
            self._loop.call_later(seconds, call)
        else:
            call()

    def _arrive(self) -> None:
        data, self._read_at = self._travelling.popleft()
        self._held += data
        if not self._busy:
            self._go_on()

    def _go_on(self) -> None:
        """Answers all that is here, or all up to a content that is to take its time."""
        replies: list[bytes] = []
        self._busy = False
        while not self._busy and not self._over:
            reply = self._content() if self._inside else self._command()
            if reply is None:
                break
            replies.append(reply)
        if replies and not self._over:
            self._transport.write(b"".join(replies))

    def _content(self) -> bytes | None:
        end = self._held.find(END)
        if end < 0:
            return None
        content, self._held = self._held[: end + 2], self._held[end + len(END) :]
        self._take(self._envelope + content.replace(b"\r\n..", b"\r\n."))
        self._inside = False
        if not self._dot:
            return b"250 2.0.0 taken\r\n"
        self._busy = True
        self._loop.call_later(self._dot, self._accept)
        return None

    def _accept(self) -> None:
        if not self._over:
            self._transport.write(b"250 2.0.0 taken\r\n")
        self._go_on()

    def _command(self) -> bytes | None:
        line, found, rest = self._held.partition(b"\r\n")
        if not found:
            return None
        self._held = rest
        match line[:4].upper():
            case b"EHLO":
                return self._ehlo
            case b"MAIL":
                self._envelope = b"X-Client-Addr: %s\r\nX-Mail-At: %.6f\r\n" % (HOST.encode(), self._read_at)
            case b"RCPT":
                self._envelope += b"X-Rcpt-Args: %s\r\n" % line.partition(b":")[2]
            case b"DATA":
                self._inside, self._held = True, b"\r\n" + self._held
                self._envelope = self._envelope.rstrip()
                return b"354 go ahead\r\n"
            case b"QUIT":
                self._transport.write(b"221 bye\r\n")
                self._transport.close()
                self._over = True
                return None
        return b"250 2.1.0 OK\r\n"


async def serve(options: argparse.Namespace, record: IO[bytes]) -> None:
    extensions = [b"relay.example", b"8BITMIME", *([] if options.no_pipelining else [b"PIPELINING"])]
    ehlo = b"".join(b"250-%s\r\n" % word for word in extensions) + b"250 ENHANCEDSTATUSCODES\r\n"

    def take(message: bytes) -> None:
        record.write(message.replace(b"\r\n", b"\n"))

    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.add_signal_handler(signal.SIGTERM, lambda: over.done() or over.set_result(None))
    server = await loop.create_server(
        lambda: Session(options.round_trip, options.dot, ehlo, take), HOST, options.port, backlog=512
    )
    await over
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.relay")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--record", required=True)
    parser.add_argument("--round-trip", type=float, default=0.0, help="seconds")
    parser.add_argument("--dot", type=float, default=0.0, help="seconds")
    parser.add_argument("--no-pipelining", action="store_true")
    options = parser.parse_args()
    with open(options.record, "wb") as record:
        asyncio.run(serve(options, record))


if __name__ == "__main__":
    main()
