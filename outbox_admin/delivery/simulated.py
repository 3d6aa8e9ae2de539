"""The route of a deployment without a relay: every message is taken and delivered to nobody.

Only what is called *simulated* everywhere else goes through here; it never opens a connection.
"""

from __future__ import annotations

from outbox_admin.core.cause import Phase
from outbox_admin.core.classify import Break, Reply
from outbox_admin.delivery.compose import Composed

ROUTE = "simulated"


class SimulatedSession:
    """Stands where an SMTP session would; answers as a relay that gives no queue id."""

    connected = True

    def open(self) -> Reply | Break | None:
        return None

    def deliver(self, message: Composed, *, then: Composed | None = None) -> Reply | Break:
        return Reply(Phase.DOT, 250, "")

    def probe(self) -> Reply | Break | None:
        return None

    def quit(self) -> None:
        """Nothing was opened."""

    def close(self) -> None:
        """Nothing was opened."""

    def abort(self) -> None:
        """Nothing takes any time."""
