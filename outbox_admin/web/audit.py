"""One audit row for each deed in the console, in the transaction of the deed."""

from __future__ import annotations

from flask import request

from outbox_admin.db.store import audit
from outbox_admin.web.visit import Visit


def record(
    asking: Visit, action: str, *, target: str = "", count: int = 1, result: str = "done", actor: str = ""
) -> None:
    """Never holds an address of a recipient: ``target`` is an id."""
    audit.add(
        asking.db,
        at=asking.now,
        actor=actor or asking.actor,
        action=action,
        target=target,
        count=count,
        result=result,
        address=request.remote_addr,
        request_id=asking.request_id,
    )
