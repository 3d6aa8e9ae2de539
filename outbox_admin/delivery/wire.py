"""Octets to and from one relay, each exchange under a deadline. The only module that touches the socket.

A deadline holds for a whole reply or a whole block, however many system calls that takes: a relay that sends one octet
now and then gains nothing. Failures leave as :class:`WireFault`. Nothing here knows a command.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from typing import TypeVar

from outbox_admin.core.cause import Kind
from outbox_admin.delivery.deadline import Deadline
from outbox_admin.delivery.replies import Answer, Malformed, ReplyBuffer

A = TypeVar("A")
T = TypeVar("T")

_CHUNK = 16384
_AT_HAND = 4  #: reads without waiting; a relay that sends for ever must not fill our memory


class WireFault(Exception):
    """The link failed or what arrived was no reply. ``raw`` may hold what the relay sent.

    ``unsent``: octets of a write that the kernel did not take.
    """

    def __init__(self, kind: Kind, raw: str, unsent: int = 0) -> None:
        super().__init__(kind.value)
        self.kind = kind
        self.raw = raw
        self.unsent = unsent


class Wire:
    """Owns a connected socket, which never blocks: what waits is :meth:`_wait`, and only where there is need."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(sock, select.POLLIN)
        self._writable.register(sock, select.POLLOUT)
        self._buffer = ReplyBuffer()
        self.aborted = False  #: by ourselves: its end tells nothing of the relay
        self.failed = False  #: once true, this link must not carry another command

    @property
    def has_unread(self) -> bool:
        return bool(self._buffer)

    @property
    def local_address(self) -> str:
        return str(self._sock.getsockname()[0])

    def at_hand(self) -> Answer | None:
        """The next reply where it was read already together with another one; asks the system nothing."""
        try:
            return self._buffer.take() if self._buffer else None
        except Malformed as error:
            raise self._fault(error) from None

    def read(self, deadline: Deadline) -> Answer:
        """The next reply."""
        try:
            while (answer := self._buffer.take()) is None:
                octets = self._receive(deadline)
                if not octets:
                    raise ConnectionAbortedError(0, "the relay closed the connection")
                self._buffer.feed(octets)
        except (OSError, Malformed) as error:
            raise self._fault(error, deadline.limit) from None
        return answer

    def write(self, octets: bytes | memoryview, deadline: Deadline) -> None:
        """Hands all of it to the kernel. Refuses while something unasked for lies unread: replies would shift."""
        if self._buffer:
            raise self._out_of_step("the relay sent more than one reply to a command")
        view = memoryview(octets)
        try:
            while view:
                view = view[self._insist(self._sock.send, view, self._writable, deadline) :]
        except OSError as error:
            raise self._fault(error, deadline.limit, unsent=len(view)) from None

    def arrived(self) -> Answer | None:
        """A whole reply that lies here already, without waiting; for the account of a write that failed."""
        with suppress(OSError, Malformed):
            self._receive_at_hand()
        with suppress(Malformed):
            return self._buffer.take()
        return None

    def is_quiet(self) -> bool:
        """Nothing unread and no end of the connection in sight: fit for another command."""
        try:
            return not self._buffer and self._receive_at_hand() and not self._buffer
        except OSError:
            return False

    def secure(self, context: ssl.SSLContext, host: str, deadline: Deadline) -> None:
        """Speaks TLS from here on, with a verified certificate for ``host``.

        What lies unread was sent before the protection began (injected, RFC 3207 4.2) and ends the connection.
        """
        if self._buffer:
            raise self._out_of_step("the relay sent text between STARTTLS and the handshake")
        try:
            plain = self._sock
            plain.getpeername()  # already torn down? Found by wrap_socket, that would leave its descriptor open
            secured = context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
            self._sock = secured
            self._insist(secured.do_handshake, False, self._readable, deadline)
        except OSError as error:
            raise self._fault(error, deadline.limit) from None

    def abort(self) -> None:
        """From any thread: ends the connection, so that a call waiting on it returns."""
        self.aborted = True
        with suppress(OSError):
            # Past ssl's own shutdown, which would take the TLS state from under the thread that waits.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._sock.close()

    def _receive(self, deadline: Deadline) -> bytes:
        """Whatever comes next. Over a plain link it waits first: a reply is seldom there when it is asked for."""
        if not isinstance(self._sock, ssl.SSLSocket):
            _wait(self._readable, deadline)
        return self._insist(self._sock.recv, _CHUNK, self._readable, deadline)

    def _insist(self, call: Callable[[A], T], what: A, ready: select.poll, deadline: Deadline) -> T:
        """The call again and again until it no longer has to wait for the other side."""
        deadline.left()
        while True:
            try:
                return call(what)
            except ssl.SSLWantReadError:
                _wait(self._readable, deadline)
            except ssl.SSLWantWriteError:
                _wait(self._writable, deadline)
            except BlockingIOError:
                _wait(ready, deadline)

    def _receive_at_hand(self) -> bool:
        """Moves what the kernel holds into the buffer; False when the connection has ended."""
        try:
            for _ in range(_AT_HAND):
                octets = self._sock.recv(_CHUNK)
                if not octets:
                    return False
                self._buffer.feed(octets)
        except (BlockingIOError, ssl.SSLWantReadError):
            pass  # everything has been fetched
        return True

    def _out_of_step(self, raw: str) -> WireFault:
        self.failed = True
        return WireFault(Kind.PROTOCOL, raw)

    def _fault(self, error: OSError | Malformed, limit: float = 0.0, *, unsent: int = 0) -> WireFault:
        self.failed = True
        match error:
            case TimeoutError():
                return WireFault(Kind.TIMEOUT, f"nothing complete within {limit:g} s", unsent)
            case Malformed():
                return WireFault(Kind.PROTOCOL, error.raw, unsent)
            case _:
                return WireFault(_kind_of(error), described(error), unsent)


def _wait(ready: select.poll, deadline: Deadline) -> None:
    """Raises TimeoutError."""
    if not ready.poll(ceil(deadline.left() * 1000)):
        raise TimeoutError


def _kind_of(error: OSError) -> Kind:
    match error:
        case ssl.SSLCertVerificationError():
            return Kind.TLS_VERIFY
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return Kind.NETWORK
        case ssl.SSLError():
            return Kind.TLS_UNAVAILABLE
        case _:
            return Kind.NETWORK


def described(error: OSError) -> str:
    """The system's words for it, without addresses of ours."""
    return error.strerror or type(error).__name__
