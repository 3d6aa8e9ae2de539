"""A worker under a WSGI server: ``gunicorn outbox_admin.delivery.host:app``.

The application answers ``/healthz``, ``/readyz`` and ``/metrics``; the worker runs beside it in every process that
serves, and is stopped when that process ends. The one place of this room that may use assemble.
"""

from __future__ import annotations

import atexit
import json
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from outbox_admin import metrics
from outbox_admin.db.schema import outbox_meta
from outbox_admin.delivery.faults import describe
from outbox_admin.errors import ConfigurationError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from outbox_admin.delivery.clock import Source
    from outbox_admin.delivery.worker import Worker

JSON = "application/json"
Answer = tuple[str, str, bytes]

log = logging.getLogger("outbox_admin.delivery")


class Host:
    """The WSGI application. ``make`` builds the worker, in the process that shall run it; ``source`` tells the time."""

    def __init__(
        self, make: Callable[[], Worker], *, engine: sa.Engine, source: Source, token: str | None
    ) -> None:
        self._make = make
        self._source = source
        self._engine = engine.execution_options(sqlite_begin="DEFERRED")
        self._token = token
        self._worker: Worker | None = None
        self._refused = False

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        pages = {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics}
        page = pages.get(str(environ.get("PATH_INFO", "")), _not_found)
        status, kind, body = page(environ)
        length = ("Content-Length", str(len(body)))
        start_response(status, [("Content-Type", kind), length, ("Cache-Control", "no-store")])
        return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]

    def start(self) -> None:
        """Starts the worker; it is stopped when the process ends."""
        self._worker = run_beside(self._make)
        self._refused = self._worker is None

    def _healthz(self, environ: WSGIEnvironment) -> Answer:
        """Alive and not stuck; in the second before its start it is neither."""
        if self._refused:
            return _unavailable("refused")
        if self._worker is None:
            return _fine("starting")
        condition = self._worker.condition()
        if not condition.alive:
            return _unavailable("dead")
        return _unavailable("stuck") if condition.stuck else _fine("ok")

    def _readyz(self, environ: WSGIEnvironment) -> Answer:
        """The database answers with our tables, and the worker has its keys."""
        if self._worker is None or not self._worker.condition().opened:
            return _unavailable("starting")
        if self._worker.parts.ring.problem is not None:
            return _unavailable("key ring")
        try:
            with self._engine.begin() as db:
                db.execute(sa.select(outbox_meta.c.name).limit(1))
        except sa.exc.SQLAlchemyError as error:
            log.error("not ready: %s", describe(error))
            return _unavailable("unavailable")
        return _fine("ready")

    def _metrics(self, environ: WSGIEnvironment) -> Answer:
        """The queue's figures, whatever became of the worker. Without a configured token there is no such page."""
        if self._token is None:
            return _not_found(environ)
        if not metrics.allowed(environ.get("HTTP_AUTHORIZATION"), self._token):
            return "401 Unauthorized", JSON, _body("unauthorized")
        try:
            with self._engine.begin() as db:
                page = metrics.exposition(db, now=self._source(db))
        except sa.exc.SQLAlchemyError as error:
            log.error("no figures: %s", describe(error))
            return _unavailable("unavailable")
        return "200 OK", metrics.CONTENT_TYPE, page


def run_beside(make: Callable[[], Worker]) -> Worker | None:
    """Starts a worker that is stopped when its process ends; None, and a line in the log, where that fails.

    Called by a thread that nobody looks at: whatever goes wrong here must be told.
    """
    try:
        worker = make()
        worker.start()
    except ConfigurationError as error:
        log.critical("no worker is started: %s", error)
        return None
    except Exception as error:  # noqa: BLE001 - see above
        log.critical("no worker is started: %s", describe(error))
        return None
    atexit.register(worker.stop)
    return worker


def __getattr__(name: str) -> Any:
    """``app`` is built when a server asks for it, so that importing this module reads no settings."""
    if name != "app":
        raise AttributeError(name)
    from outbox_admin import assemble

    globals()[name] = assemble.host()
    return globals()[name]


def _fine(status: str) -> Answer:
    return "200 OK", JSON, _body(status)


def _unavailable(status: str) -> Answer:
    return "503 Service Unavailable", JSON, _body(status)


def _not_found(environ: WSGIEnvironment) -> Answer:
    return "404 Not Found", JSON, _body("not found")


def _body(status: str) -> bytes:
    return json.dumps({"status": status}).encode() + b"\n"
