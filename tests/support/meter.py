"""A relay that takes all mail and notes when the first octet of each content came.

The moments are the kernel's, where it tells them: they are true however late this process gets to read.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from types import TracebackType

from tests.support.ports import HOST

_TIMESTAMPS = 35  #: Linux's SO_TIMESTAMPNS, which the socket module does not name
_TIMESPEC = struct.Struct("@qq")


class Meter:
    """``moments``: seconds of the wall clock, in no order. ``recipients``: of what was accepted."""

    def __init__(self) -> None:
        self.moments: list[float] = []
        self.recipients: list[bytes] = []
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._listener = socket.create_server((HOST, 0), backlog=100)
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Meter:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for sock in self._open:
            with suppress(OSError):  # the worker was first
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _start(self, target: object, *values: object) -> None:
        thread = threading.Thread(target=target, args=values, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(sock)
            self._start(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stamps = _stamped(sock)
            try:
                self._converse(sock, stamps)
            except (ConnectionError, EOFError):
                return

    def _converse(self, sock: socket.socket, stamps: bool) -> None:
        sock.sendall(b"220 meter.example\r\n")
        recipient, held = b"", b""
        while True:
            while b"\r\n" not in held:
                held += _receive(sock)[0]
            line, _, held = held.partition(b"\r\n")
            verb = line[:4].upper()
            if verb == b"RCPT":
                recipient = line
            if verb == b"DATA":
                held = self._content(sock, held, stamps)
                self.recipients.append(recipient)
            sock.sendall(b"221 bye\r\n" if verb == b"QUIT" else b"250 OK\r\n")

    def _content(self, sock: socket.socket, held: bytes, stamps: bool) -> bytes:
        sock.sendall(b"354 go ahead\r\n")
        octets, moment = _receive(sock)
        self.moments.append(moment if stamps else time.time())
        held = b"\r\n" + held + octets
        while b"\r\n.\r\n" not in held:
            held += _receive(sock)[0]
        return held.partition(b"\r\n.\r\n")[2]


def _stamped(sock: socket.socket) -> bool:
    """Whether the kernel dates what it receives."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, _TIMESTAMPS, 1)
    except OSError:
        return False
    return hasattr(socket, "SO_DOMAIN")  # Linux


def _receive(sock: socket.socket) -> tuple[bytes, float]:
    octets, beside, _, _ = sock.recvmsg(65536, 128)
    if not octets:
        raise EOFError
    for level, kind, data in beside:
        if (level, kind) == (socket.SOL_SOCKET, _TIMESTAMPS) and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return octets, seconds + nanoseconds / 1e9
    return octets, time.time()
