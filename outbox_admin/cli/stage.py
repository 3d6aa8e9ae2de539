"""The demo's stage: relay, database, keys, worker and console in one process and one temporary folder.

Built from the same parts as production; only the relay, which catches all mail, is the demo's own.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa
from werkzeug.serving import make_server

from outbox_admin import assemble
from outbox_admin.config import Settings
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.db import migrations
from outbox_admin.db.reads import clock
from outbox_admin.db.store import users
from outbox_admin.demo import cast
from outbox_admin.demo.relay import ByName, Catcher, Verdict
from outbox_admin.web.passwords import hash_password

HOST = "127.0.0.1"
ADMIN = "demo"
NOTICE = (
    "This is the demo: all mail is caught on this machine. Its own settings: cycle 0.5 s, first backoff 0.5 s, "
    "SMTP time limits 2 s."
)
_OWN = {
    "OUTBOX_ENV": "development",
    "OUTBOX_SENDER": cast.SENDER,
    "OUTBOX_SMTP_TLS": "none",
    "OUTBOX_SMTP_TIMEOUT": "2s",
    "OUTBOX_SMTP_FINAL_TIMEOUT": "2s",
    "OUTBOX_CYCLE": "0.5s",
    "OUTBOX_BACKOFF_BASE": "0.5s",
    "OUTBOX_EMBEDDED_WORKER": "0",  # the stage starts and stops it by itself
}


@dataclass(frozen=True, slots=True)
class Stage:
    """What is running. ``password`` is the admin's, made for this run; ``roles`` are the ids of the cast by name."""

    url: str
    password: str = field(repr=False)
    engine: sa.Engine
    settings: Settings
    ring: KeyRing
    relay: Catcher
    roles: dict[str, UUID]
    switch: Path


@contextmanager
def running(folder: Path, port: int | None) -> Iterator[Stage]:
    """Everything started; everything stopped at the end, the worker first."""
    for name in ("werkzeug", "outbox_admin"):  # what goes wrong here is meant to, and the console shows it
        logging.getLogger(name).setLevel(logging.ERROR)
    switch = folder / "relay-repaired"
    with ExitStack() as stack:
        relay = stack.enter_context(Catcher(HOST, decide=_by_name_until(switch)))
        listener = stack.enter_context(_listener(port))
        url = f"http://{HOST}:{listener.getsockname()[1]}"
        settings = _settings(folder, relay.port, url)
        ring = KeyRing.generate()
        ring.write(str(settings.key_ring))
        engine = assemble.engine(settings)
        stack.callback(engine.dispose)
        password = secrets.token_urlsafe(12)
        roles = _prepare(engine, ring, password)
        worker = assemble.worker(settings, kind="embedded")
        worker.start()
        stack.callback(worker.stop)
        stack.enter_context(_console(settings, listener))
        yield Stage(url, password, engine, settings, ring, relay, roles, switch)


def _by_name_until(switch: Path) -> Callable[[str], Verdict]:
    """By the recipient's name; once the file exists, mail to always-deferred is taken too."""
    by_name = ByName()

    def decide(recipient: str) -> Verdict:
        if switch.exists():
            by_name.repair()
        return by_name(recipient)

    return decide


def _settings(folder: Path, relay_port: int, url: str) -> Settings:
    places = {
        "OUTBOX_DATABASE_URL": f"sqlite:///{folder / 'outbox.db'}",
        "OUTBOX_KEY_RING": str(folder / "keyring.json"),
        "OUTBOX_SMTP_URL": f"smtp://{HOST}:{relay_port}",
        "OUTBOX_CONSOLE_SECRET": secrets.token_urlsafe(32),
        "OUTBOX_PUBLIC_URL": url,
    }
    return Settings.from_env(_OWN | places)


def _prepare(engine: sa.Engine, ring: KeyRing, password: str) -> dict[str, UUID]:
    migrations.upgrade(engine)
    with engine.begin() as db:
        now = clock.now(db)
        users.add(db, name=ADMIN, role="admin", password_hash=hash_password(password), now=now)
        return cast.enter(db, ring, now=now)


def _listener(port: int | None) -> socket.socket:
    """On ``port``, or on 8025 where that is free and on any other where not."""
    for wanted in (port,) if port is not None else (8025, 0):
        try:
            return socket.create_server((HOST, wanted))
        except OSError:
            if wanted == port:
                raise
    raise AssertionError("port 0 is always free")


@contextmanager
def _console(settings: Settings, listener: socket.socket) -> Iterator[None]:
    app = assemble.console(settings, notice=NOTICE)
    server = make_server(HOST, listener.getsockname()[1], app, threaded=True, fd=listener.fileno())
    thread = threading.Thread(target=server.serve_forever, name="console", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join(timeout=10)
        server.server_close()
