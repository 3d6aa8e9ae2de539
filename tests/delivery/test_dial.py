"""Every address of a host gets its turn, within one deadline."""

import socket
import time
from collections.abc import Iterator

import pytest

from outbox_admin.core.cause import Kind
from outbox_admin.delivery import dial as dialling
from outbox_admin.delivery.deadline import Deadline
from outbox_admin.delivery.dial import dial
from outbox_admin.delivery.wire import WireFault
from tests.support.ports import free_port
from tests.support.relay import Relay
from tests.support.waiting import LIMIT


def deadline(seconds: float = 10) -> Deadline:
    return Deadline.after(seconds, time.monotonic)


@pytest.fixture
def full_backlog() -> Iterator[int]:
    """A port whose connections are never answered, as behind a firewall that drops packets."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        yield port
        for each in waiting:
            each.close()


def test_a_host_is_reached_by_name() -> None:
    with Relay() as relay:
        wire = dial("localhost", relay.port, deadline())
        assert wire.read(deadline()).code == 220
        wire.close()


def test_a_refused_connection_is_a_network_fault() -> None:
    with pytest.raises(WireFault) as caught:
        dial("127.0.0.1", free_port(), deadline())
    assert caught.value.kind is Kind.NETWORK


def test_an_address_that_swallows_packets_ends_at_the_deadline(full_backlog: int) -> None:
    began = time.monotonic()
    with pytest.raises(WireFault) as caught:
        dial("127.0.0.1", full_backlog, deadline(0.3))
    assert caught.value.kind is Kind.TIMEOUT
    assert time.monotonic() - began < LIMIT


def test_the_other_address_still_gets_its_share_of_the_time(full_backlog: int) -> None:
    """The first swallows packets for its half of the time, the second answers."""
    with Relay() as relay:
        addresses = [
            (socket.AF_INET, ("127.0.0.1", full_backlog)),
            (socket.AF_INET, ("127.0.0.1", relay.port)),
        ]
        wire = dialling.reach(addresses, deadline(1))
        assert wire.read(deadline()).code == 220
        wire.close()


def test_a_deadline_that_has_passed_is_a_time_out() -> None:
    with Relay() as relay, pytest.raises(WireFault) as caught:
        dial("127.0.0.1", relay.port, deadline(0))
    assert caught.value.kind is Kind.TIMEOUT
