"""What is pressed in the console, and what a real worker then does at a real relay."""

from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from outbox_admin.demo.relay import Catcher
from tests.delivery.room import Room, route_to
from tests.support.clock import FakeClock
from tests.support.ports import free_port
from tests.support.relay import Relay, close
from tests.web.conftest import Visitor
from tests.web.reading import links, text


@pytest.fixture
def room(engine: sa.Engine, clock: FakeClock) -> Iterator[Room]:
    with Room(engine, clock) as made:
        yield made


@pytest.fixture
def relay() -> Iterator[Catcher]:
    with Catcher() as running:
        yield running


@pytest.fixture
def drain(room: Room, relay: Catcher) -> Callable[[], object]:
    """One worker's pass over what is due."""
    return lambda: room.worker(route_to(relay.port)).drain()


def test_what_is_held_in_the_console_stays_until_it_is_lifted_there(
    admin: Visitor, room: Room, relay: Catcher, drain: Callable[[], object]
) -> None:
    row = room.enqueue("jane@held.example")
    admin.post("/holds", {"scope": "domain", "value": "HELD.example", "reason": "their server is down"})
    drain()
    assert (relay.messages, room.row(row).attempts, room.row(row).tries) == ([], 0, 0)
    assert "“their server is down” (mail to held.example)" in text(admin.page(f"/messages/{row}"))
    (lift,) = [url for url in links(admin.page("/holds")) if url.endswith("/lift")]
    admin.post(lift)
    drain()
    assert [message.recipients for message in relay.messages] == [("jane@held.example",)]
    assert "Nothing is held." in text(admin.page("/holds"))


def test_what_is_settled_in_the_console_is_sent_again_or_never(
    admin: Visitor, room: Room, relay: Catcher, drain: Callable[[], object]
) -> None:
    again, never = room.enqueue(on_unknown="hold"), room.enqueue(on_unknown="hold")
    with Relay({"DOT": close()}) as breaking:
        room.worker(route_to(breaking.port)).drain()
    assert room.states() == {"uncertain": 2}
    admin.post(f"/messages/{again}/settle/resend")
    admin.post(f"/messages/{never}/settle/give-up")
    drain()
    assert room.states() == {"sent": 1, "cancelled": 1}
    assert len(relay.messages) == 1
    page = text(admin.page(f"/messages/{again}"))
    assert "Possible double" in page
    assert "Settled: sent again by admin" in page
    assert "Accepted by the relay" in page


def test_a_suppressed_address_gets_nothing_until_it_is_taken_off(
    admin: Visitor, room: Room, relay: Catcher, drain: Callable[[], object]
) -> None:
    waits = room.enqueue("jane@example.com")
    listed = admin.post("/suppressions", {"address": "JANE@example.com", "reason": "bounced"})
    drain()
    assert (relay.messages, room.row(waits).state) == ([], "cancelled")
    assert "The recipient is on the suppression list" in text(admin.page(f"/messages/{waits}"))
    (remove,) = [url for url in links(admin.page(listed.headers["Location"])) if "remove" in url]
    admin.post("/suppressions/remove", {"rq": remove.partition("rq=")[2]})
    room.enqueue("jane@example.com")
    drain()
    assert len(relay.messages) == 1


def test_a_route_that_the_worker_paused_is_tried_when_the_button_is_pressed(
    admin: Visitor, room: Room, relay: Catcher
) -> None:
    row = room.enqueue()
    room.worker(route_to(free_port())).drain()
    page = text(admin.page("/"))
    assert "Sending on route primary is paused" in page
    assert "Relay not reachable while connecting" in page
    assert room.row(row).attempts == 0
    admin.post("/routes/primary/probe")
    room.worker(route_to(relay.port)).drain()
    assert room.row(row).state == "sent"
    assert "is paused" not in text(admin.page("/"))
