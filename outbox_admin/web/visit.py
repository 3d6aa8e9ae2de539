"""What is known of the request at hand: the console's parts, the time, who asks. One value per request."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from flask import current_app, g, request
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import Session

from outbox_admin.db.reads import clock as database_clock
from outbox_admin.web.database import begin_reading, session_of
from outbox_admin.web.settings import WebSettings
from outbox_admin.web.signing import Signer
from outbox_admin.web.statics import Statics

EXTENSION = "outbox_admin"


class Role(StrEnum):
    """Each may do what the ones before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, needed: Role) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Console:
    """What all requests share."""

    settings: WebSettings
    db: SQLAlchemy
    clock: Callable[[], datetime] | None
    signer: Signer
    statics: Statics


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is signed in. ``role`` is read anew with every request."""

    user_id: UUID
    name: str
    role: Role


@dataclass(slots=True)
class Visit:
    """Filled by the guard before any view runs."""

    console: Console
    db: Session
    now: datetime
    request_id: str = field(default_factory=lambda: secrets.token_hex(6))
    cookie: str | None = field(default=None, repr=False)
    principal: Principal | None = None

    def may(self, role: Role) -> bool:
        return self.principal is not None and self.principal.role.covers(role)

    @property
    def actor(self) -> str:
        return self.principal.name if self.principal else "anonymous"


def console() -> Console:
    found: Console = current_app.extensions[EXTENSION]
    return found


def visit() -> Visit:
    """The current request's; made at its first use."""
    found: Visit | None = g.get("_outbox_visit")
    if found is None:
        found = g._outbox_visit = _begin()
    return found


def _begin() -> Visit:
    parts = console()
    db = session_of(parts.db)
    if request.method in ("GET", "HEAD"):
        begin_reading(db, limit=parts.settings.statement_limit)
    now = parts.clock() if parts.clock else database_clock.now(db)
    return Visit(parts, db, now)
