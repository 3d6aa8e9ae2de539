"""The SMTP session of one lane: one connection, reused, that always knows its phase.

Network faults are values here (:class:`Reply`, :class:`Break`), never exceptions. What they mean for a message is
decided in core/classify, not here.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from outbox_admin.core.classify import Break, Reply
from outbox_admin.delivery.routes import Route


class SmtpSession:
    """Talks to the relay of ``route``; to be used by one thread."""

    def __init__(
        self, route: Route, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.route = route
        self._clock = clock

    @property
    def connected(self) -> bool:
        raise NotImplementedError

    @property
    def max_size(self) -> int | None:
        """Octets that the relay's SIZE allows; None where it names no limit or nothing is connected."""
        raise NotImplementedError

    @property
    def uses(self) -> int:
        """Messages begun on the present connection."""
        raise NotImplementedError

    def open(self) -> Reply | Break | None:
        """Connects, greets, secures, logs in. None when the relay is ready for a message."""
        raise NotImplementedError

    def deliver(
        self, sender: str, recipient: str, content: bytes, *, smtputf8: bool = False
    ) -> Reply | Break:
        """One message to one recipient."""
        raise NotImplementedError

    def probe(self) -> Reply | Break | None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def quit(self) -> None:
        raise NotImplementedError
