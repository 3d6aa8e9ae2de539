"""From a host name to a connected socket, within one deadline. Nothing is sent here."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from outbox_admin.core.cause import Kind
from outbox_admin.delivery.deadline import Deadline
from outbox_admin.delivery.wire import Wire, WireFault, described

Address = tuple[socket.AddressFamily, Any]


def dial(host: str, port: int, deadline: Deadline) -> Wire:
    """Connects to ``host``, a name or an address. Raises :class:`WireFault`: dns, network or timeout."""
    return reach(_resolve(host, port, deadline), deadline)


def reach(addresses: Sequence[Address], deadline: Deadline) -> Wire:
    """The first that answers, in the resolver's order; each gets its share of the time that is left.

    So one address that swallows packets (a broken IPv6 path) cannot use up the others' time.
    """
    fault = WireFault(Kind.DNS, "the host has no address")
    for position, address in enumerate(addresses):
        try:
            share = deadline.left() / (len(addresses) - position)
            return Wire(_connect(address, deadline.within(share)))
        except TimeoutError:
            fault = WireFault(Kind.TIMEOUT, f"no connection within {deadline.limit:g} s")
        except OSError as error:
            fault = WireFault(Kind.NETWORK, described(error))
    raise fault


def _connect(address: Address, deadline: Deadline) -> socket.socket:
    family, place = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Commands are short and wait for their reply: held back (Nagle) each would cost a delayed acknowledgement.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.settimeout(deadline.left())
        sock.connect(place)
    except BaseException:
        sock.close()
        raise
    return sock


def _resolve(host: str, port: int, deadline: Deadline) -> list[Address]:
    """The system's resolver knows no time limit, so it is asked from a thread that may be left behind."""
    with suppress(OSError, UnicodeError):
        return _ask(host, port, socket.AI_NUMERICHOST)
    answer: queue.SimpleQueue[list[Address] | WireFault] = queue.SimpleQueue()
    threading.Thread(target=_look_up, args=(host, port, answer), name="outbox-resolve", daemon=True).start()
    try:
        found = answer.get(timeout=deadline.left())
    except (queue.Empty, TimeoutError):
        raise WireFault(Kind.DNS, f"the resolver did not answer within {deadline.limit:g} s") from None
    if isinstance(found, WireFault):
        raise found
    return found


def _look_up(host: str, port: int, answer: queue.SimpleQueue[list[Address] | WireFault]) -> None:
    try:
        answer.put(_ask(host, port, 0))
    except OSError as error:
        answer.put(WireFault(Kind.DNS, described(error)))
    except UnicodeError:
        answer.put(WireFault(Kind.DNS, "not a host name"))


def _ask(host: str, port: int, flags: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, place) for family, _, _, _, place in found]
