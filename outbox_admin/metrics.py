"""Figures for Prometheus, read from the database at each scrape, and the token that guards them.

Every process that is asked gives the same answer, so nothing has to be summed over processes. Shared by the console
and the worker's host; it must import neither.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from datetime import datetime

import sqlalchemy as sa

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def allowed(authorization: str | None, token: str | None) -> bool:
    """Whether the ``Authorization`` header carries the bearer token; without a token nobody may read."""
    if not token or not authorization:
        return False
    scheme, _, given = authorization.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


def exposition(db: sa.Connection, *, now: Callable[[], datetime]) -> bytes:
    """The page in Prometheus' text format (:data:`CONTENT_TYPE`)."""
    raise NotImplementedError
