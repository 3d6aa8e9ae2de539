"""The session cookie and the CSRF token bound to it. Nothing is put into a host's session.

The cookie holds a random token, the database its hash. Before anybody signs in the cookie only binds the sign-in form.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta

from flask import request
from werkzeug.wrappers import Response

from outbox_admin.db.reads import accounts
from outbox_admin.db.store import sessions
from outbox_admin.web.database import begin_reading
from outbox_admin.web.visit import Principal, Role, Visit, console

#: How often the idle time is written down.
TOUCH_AFTER = timedelta(minutes=1)


def cookie_name() -> str:
    return "__Host-outbox" if console().settings.secure else "outbox"


def read_cookie() -> str | None:
    token = request.cookies.get(cookie_name(), "")
    return token if 40 <= len(token) <= 64 else None


def new_token() -> str:
    return secrets.token_urlsafe(32)


def set_cookie(response: Response, token: str) -> None:
    """For as long as the browser runs; no Domain, so that no neighbour can plant it."""
    response.set_cookie(
        cookie_name(), token, path="/", secure=console().settings.secure, httponly=True, samesite="Lax"
    )


def drop_cookie(response: Response) -> None:
    response.delete_cookie(
        cookie_name(), path="/", secure=console().settings.secure, httponly=True, samesite="Lax"
    )


def hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def csrf_token(visit: Visit) -> str:
    return visit.console.signer.keyed_hash("csrf", visit.cookie or "")[:32]


def csrf_holds(visit: Visit) -> bool:
    """Whether the request carries the token of its own session."""
    given = request.form.get("csrf") or request.headers.get("X-CSRF-Token", "")
    return visit.cookie is not None and hmac.compare_digest(given.encode(), csrf_token(visit).encode())


def recognise(visit: Visit, *, polling: bool) -> None:
    """Fills in who asks. A poll does not count as activity."""
    visit.cookie = read_cookie()
    if visit.cookie is None:
        return
    token_hash = hashed(visit.cookie)
    found = accounts.session(visit.db, token_hash)
    if found is None or _ended(visit, found):
        return
    visit.principal = Principal(found.user_id, found.name, Role(found.role))
    if not polling and visit.now - found.seen_at >= TOUCH_AFTER:
        _touch(visit, token_hash)


def open_for(visit: Visit, account: accounts.Account) -> str:
    """A fresh session; whatever the browser sent before is worth nothing any more."""
    settings = visit.console.settings
    if visit.cookie is not None:
        sessions.close_session(visit.db, token_hash=hashed(visit.cookie))
    sessions.forget_ended(visit.db, now=visit.now, idle_since=visit.now - settings.session_idle)
    token = new_token()
    sessions.open_session(
        visit.db,
        token_hash=hashed(token),
        user_id=account.id,
        now=visit.now,
        expires_at=visit.now + settings.session_life,
        address=request.remote_addr,
    )
    return token


def _ended(visit: Visit, found: accounts.SessionRow) -> bool:
    idle_until: datetime = found.seen_at + visit.console.settings.session_idle
    return visit.now >= found.expires_at or visit.now >= idle_until


def _touch(visit: Visit, token_hash: str) -> None:
    """In a transaction of its own: what a GET reads afterwards is read without the right to write."""
    visit.db.rollback()
    sessions.touch(visit.db, token_hash=token_hash, now=visit.now)
    visit.db.commit()
    if request.method in ("GET", "HEAD"):
        begin_reading(visit.db, limit=visit.console.settings.statement_limit)
