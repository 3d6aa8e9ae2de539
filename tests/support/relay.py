"""A relay that does exactly what a test's script says, at every step, and writes down every octet it gets.

::

    with Relay({"RCPT": "550 5.1.1 no", "DOT": then("421 bye", close())}, {}) as relay:
        ...
    relay.connections[0].commands      # [b"EHLO ...", b"MAIL FROM:...", ...]
    relay.messages                     # what was accepted, dots un-stuffed

A script maps a step to an action, or to a list of actions for its first, second, ... time on a connection (then the
ordinary reply follows). Steps: CONNECT, EHLO, HELO, STARTTLS, AUTH, RESPONSE (a line of a login), MAIL, RCPT, DATA,
DOT, RSET, NOOP, QUIT. The n-th connection plays the n-th script, the last script serves all further ones.
An action is a reply in text (lines joined by line feeds), or one of the functions below, or one of a test's own.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType

Action = Callable[["Conversation"], Awaitable[None]]
Script = Mapping[str, "str | Action | Sequence[str | Action]"]

_PATH = re.compile(rb"(?:MAIL FROM|RCPT TO):<([^>]*)>", re.IGNORECASE)


_LIMIT = 65536


class EndOfData(Enum):
    """What a relay takes as the end of the content beside the right one."""

    STRICT = ()
    LF_LF = (b"\n.\n",)
    LF_CRLF = (b"\n.\r\n",)
    CR_CR = (b"\r.\r",)


def raw(octets: bytes) -> Action:
    """Sends these octets, whatever they are."""

    async def act(talk: Conversation) -> None:
        talk.announce(octets[:3])
        await talk.send(octets)

    return act


def wait(seconds: float) -> Action:
    async def act(talk: Conversation) -> None:
        await asyncio.sleep(seconds)

    return act


def then(*actions: str | Action) -> Action:
    """One after the other: ``then("421 bye", close())``."""

    async def act(talk: Conversation) -> None:
        for action in actions:
            await talk.perform(action)

    return act


def slowly(octets: bytes) -> Action:
    """One octet after the other, each in a packet of its own."""

    async def act(talk: Conversation) -> None:
        talk.announce(octets[:3])
        for octet in octets:
            await talk.send(bytes([octet]))
            await asyncio.sleep(0)

    return act


def forget() -> Action:
    """Throws away what came already: a relay that does not expect commands ahead of its reply."""

    async def act(talk: Conversation) -> None:
        talk.forget()

    return act


def until(event: threading.Event) -> Action:
    """Goes on when the test says so."""

    async def act(talk: Conversation) -> None:
        await asyncio.to_thread(event.wait, 60)

    return act


def trickle(octets: bytes, *, every: float) -> Action:
    """Sends ``octets`` again and again, ``every`` so many seconds, without end."""

    async def act(talk: Conversation) -> None:
        while True:
            await talk.send(octets)
            await asyncio.sleep(every)

    return act


def silence() -> Action:
    """Says nothing from here on, until the client closes."""

    async def act(talk: Conversation) -> None:
        while True:
            await talk.receive()

    return act


def deaf() -> Action:
    """Reads nothing from here on, and says nothing."""

    async def act(talk: Conversation) -> None:
        await asyncio.Event().wait()

    return act


def close() -> Action:
    """An orderly end of the connection."""

    async def act(talk: Conversation) -> None:
        raise _Over

    return act


def reset() -> Action:
    """The connection is torn down (TCP RST)."""

    async def act(talk: Conversation) -> None:
        talk.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        talk.writer.transport.abort()
        raise _Over

    return act


def handshake() -> Action:
    """Speaks TLS from here on, as the server."""

    async def act(talk: Conversation) -> None:
        await talk.secure()

    return act


class _Over(Exception):
    """The conversation ends."""


@dataclass(slots=True)
class Transaction:
    """One accepted MAIL and what followed; ``accepted`` once the dot was answered with 2yz."""

    mail: bytes
    recipients: list[str] = field(default_factory=list)
    content: bytes | None = None
    accepted: bool = False

    @property
    def sender(self) -> str:
        path = _PATH.match(self.mail)
        return path[1].decode() if path else ""


@dataclass(slots=True)
class Connection:
    """``octets``: all that came, inside TLS in clear. ``commands``: lines without their end, no content.

    ``pieces``: what came in one read. A short write of the client is one, since it waits for an answer after it.
    """

    octets: bytearray = field(default_factory=bytearray)
    pieces: list[bytes] = field(default_factory=list)
    commands: list[bytes] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    secured: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def verbs(self) -> list[str]:
        return [command.split(b" ")[0].decode("latin-1").upper() for command in self.commands]


class Relay:
    """``offer``: EHLO keywords; STARTTLS is added where ``tls`` is given. ``implicit``: TLS from the first octet.

    ``gathers``: replies are held back while more commands lie here, and leave in one packet.
    """

    def __init__(
        self,
        *scripts: Script,
        offer: Sequence[str] = (),
        tls: ssl.SSLContext | None = None,
        implicit: bool = False,
        gathers: bool = False,
        end_of_data: EndOfData = EndOfData.STRICT,
        port: int = 0,
    ) -> None:
        self.scripts = scripts or ({},)
        self.offer, self.tls, self.implicit = list(offer), tls, implicit
        self.gathers = gathers
        self.ends = (b"\r\n.\r\n", *end_of_data.value)
        self.port = port
        self.connections: list[Connection] = []
        self._talks: list[asyncio.Task[None] | None] = []  # one that waits for ever is held by nothing else
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted-relay", daemon=True)

    @property
    def transactions(self) -> list[Transaction]:
        return [each for connection in self.connections for each in connection.transactions]

    @property
    def messages(self) -> list[Transaction]:
        return [each for each in self.transactions if each.accepted]

    @property
    def verbs(self) -> list[str]:
        """Of all connections, in order."""
        return [verb for connection in self.connections for verb in connection.verbs()]

    def stop_listening(self) -> None:
        """New connections are refused; open ones go on."""
        self._loop.call_soon_threadsafe(self._server.close)

    def __enter__(self) -> Relay:
        self._thread.start()
        starting = asyncio.start_server(
            self._converse, "127.0.0.1", self.port, limit=_LIMIT, ssl=self.tls if self.implicit else None
        )
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
        await asyncio.sleep(0)  # transports that were closed last say so in the next round

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = self.scripts[min(len(self.connections), len(self.scripts) - 1)]
        connection = Connection(secured=self.implicit)
        self.connections.append(connection)
        self._talks.append(asyncio.current_task())
        try:
            with suppress(_Over, OSError):
                await Conversation(self, connection, script, reader, writer).run()
            writer.close()
        except asyncio.CancelledError:
            writer.transport.abort()  # nobody waits for a client that does not read
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()
        connection.ended.set()


class Conversation:
    """One connection while it lasts."""

    def __init__(
        self,
        relay: Relay,
        connection: Connection,
        script: Script,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.relay, self.connection, self.script = relay, connection, script
        self.reader, self.writer = reader, writer
        self.socket: socket.socket = writer.get_extra_info("socket")
        self.code = b""  # of the last reply
        self.transaction: Transaction | None = None
        self._judged: Transaction | None = None
        self._seen: dict[str, int] = {}
        self._unread = b""
        self._held = b""  # replies that leave together
        self._login: list[str] = []  # replies that the rest of a login will get

    async def run(self) -> None:
        await self.play("CONNECT", "220 relay.example ready")
        while True:
            line = await self.line()
            self.connection.commands.append(line)
            if self._login:
                await self.play("RESPONSE", self._login.pop(0))
                continue
            await self._obey(line, line[:4].upper().decode("latin-1").strip())

    async def send(self, octets: bytes) -> None:
        self._held += octets
        if not (self.relay.gathers and self._unread):
            await self._flush()

    def forget(self) -> None:
        self._unread = b""

    async def _flush(self) -> None:
        octets, self._held = self._held, b""
        self.writer.write(octets)
        await self.writer.drain()

    def announce(self, code: bytes) -> None:
        """Noted before it is sent: whoever has the reply may look at once. The first after the dot is the verdict."""
        self.code = code
        if self._judged is not None:
            self._judged.accepted = code.startswith(b"2")
            self._judged = None

    async def play(self, step: str, ordinary: str | Action) -> None:
        """The script's action for this step, else the ordinary one."""
        count = self._seen.get(step, 0)
        self._seen[step] = count + 1
        chosen = self.script.get(step, ordinary)
        if not isinstance(chosen, str) and isinstance(chosen, Sequence):
            chosen = chosen[count] if count < len(chosen) else ordinary
        await self.perform(chosen)

    async def perform(self, action: str | Action) -> None:
        if not isinstance(action, str):
            await action(self)
            return
        *more, last = action.split("\n")
        self.announce(last[:3].encode())
        lines = [line.replace(" ", "-", 1) for line in more] + [last]
        await self.send("".join(line + "\r\n" for line in lines).encode("latin-1"))

    async def secure(self) -> None:
        assert self.relay.tls is not None
        self._unread = b""
        await self.writer.start_tls(self.relay.tls)
        self.connection.secured = True

    async def line(self) -> bytes:
        while b"\n" not in self._unread:
            await self.receive()
        line, _, self._unread = self._unread.partition(b"\n")
        return line.removesuffix(b"\r")

    async def receive(self) -> None:
        if self._held:
            await self._flush()
        octets = await self.reader.read(65536)
        if not octets:
            raise _Over
        self.connection.octets += octets
        self.connection.pieces.append(octets)
        self._unread += octets

    async def _obey(self, line: bytes, verb: str) -> None:
        match verb:
            case "EHLO":
                await self.play(
                    verb, "\n".join(["250 relay.example", *self._offer()]).replace("\n", "\n250 ")
                )
            case "STAR":
                await self.play("STARTTLS", then("220 go ahead", handshake()))
            case "AUTH":
                await self._begin_login(line)
            case "MAIL":
                await self._mail(line)
            case "RCPT":
                await self._rcpt(line)
            case "DATA":
                await self._data()
            case "RSET":
                self.transaction = None
                await self.play(verb, "250 2.0.0 OK")
            case "HELO" | "NOOP":
                await self.play(verb, "250 2.0.0 OK")
            case "QUIT":
                await self.play(verb, then("221 2.0.0 bye", close()))
            case _:
                await self.perform("500 5.5.2 not recognised")

    def _offer(self) -> list[str]:
        tls = self.relay.tls is not None and not self.connection.secured
        return [*self.relay.offer, *(["STARTTLS"] if tls else [])]

    async def _begin_login(self, line: bytes) -> None:
        """Any login is accepted; a script says otherwise by AUTH, or by RESPONSE for what follows a 334."""
        words = line.decode("latin-1").split()
        accepted = "235 2.7.0 welcome"
        if words[1].upper() == "LOGIN":
            ordinary, rest = "334 VXNlcm5hbWU6", ["334 UGFzc3dvcmQ6", accepted]
        else:
            ordinary, rest = (accepted, [accepted]) if len(words) > 2 else ("334 ", [accepted])
        await self.play("AUTH", ordinary)
        self._login = rest if self.code == b"334" else []

    async def _mail(self, line: bytes) -> None:
        nested = "503 5.5.1 nested MAIL"
        await self.play("MAIL", nested if self.transaction else "250 2.1.0 OK")
        if self.code.startswith(b"2"):
            self.transaction = Transaction(line)
            self.connection.transactions.append(self.transaction)

    async def _rcpt(self, line: bytes) -> None:
        await self.play("RCPT", "250 2.1.5 OK" if self.transaction else "503 5.5.1 MAIL first")
        path = _PATH.match(line)
        if self.transaction and self.code.startswith(b"2"):
            self.transaction.recipients.append(path[1].decode() if path else line.decode("latin-1"))

    async def _data(self) -> None:
        transaction = self.transaction
        await self.play("DATA", "354 go ahead" if transaction else "503 5.5.1 RCPT first")
        if self.code != b"354" or transaction is None:
            return
        transaction.content = await self._content()
        number = sum(len(connection.transactions) for connection in self.relay.connections)
        self.transaction, self._judged = None, transaction
        try:
            await self.play("DOT", f"250 2.0.0 Ok: queued as SCRIPT{number}")
        finally:
            self._judged = None

    async def _content(self) -> bytes:
        """Up to the first octets that this relay takes as the end; what follows is read as commands."""
        held = bytearray(b"\r\n" + self._unread)
        searched = 0
        while not (ends := [(at, end) for end in self.relay.ends if (at := held.find(end, searched)) >= 0]):
            searched, self._unread = max(0, len(held) - 4), b""
            await self.receive()
            held += self._unread
        at, end = min(ends)
        self._unread = bytes(held[at + len(end) :])
        return bytes((held[:at].replace(b"\r\n..", b"\r\n.") + b"\r\n")[2:])
