"""TLS before PostgreSQL, whose own build may have none: to a client it is a server that takes nothing else."""

from __future__ import annotations

import asyncio
import ssl

from tests.faults.pgwire import Middle, first_of, is_tls_request


class TlsFront(Middle):
    """``secured`` counts the connections; a start without TLS is refused by closing."""

    def __init__(self, server_port: int, context: ssl.SSLContext) -> None:
        super().__init__(server_port)
        self.secured = 0
        self._context = context

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not is_tls_request(await reader.readexactly(8)):
            writer.write(b"N")  # GSS encryption is asked for first; what else comes never ends in a handshake
        writer.write(b"S")
        await writer.drain()
        await writer.start_tls(self._context)
        self.secured += 1
        from_server, to_server = await self.connect()
        try:
            await first_of(_pass(reader, to_server), _pass(from_server, writer))
        finally:
            await self.drop(to_server)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while octets := await reader.read(65536):
        writer.write(octets)
        await writer.drain()
