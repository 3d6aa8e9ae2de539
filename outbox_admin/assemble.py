"""The composition root: from settings to a worker, a console or a producer. No other module knows all the rooms.

Here, and nowhere else, the real clock, the real dice and the real tokens come in. Nothing is decided here.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from outbox_admin.config import Role, Settings
from outbox_admin.core.backoff import Backoff
from outbox_admin.core.lifecycle import Policy
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.crypto.watched import WatchedRing, open_ring
from outbox_admin.db.engine import bound_waits, create
from outbox_admin.delivery.announcing import announce
from outbox_admin.delivery.clock import Clock, Source, Wait, database_time, ticking
from outbox_admin.delivery.forking import AfterFork
from outbox_admin.delivery.parts import Keeping, Parts, Rules, Wakeup
from outbox_admin.delivery.routes import Auth, Route
from outbox_admin.delivery.worker import Worker
from outbox_admin.outbox import Outbox

if TYPE_CHECKING:
    from flask import Flask

    from outbox_admin.delivery.host import Host
    from outbox_admin.delivery.templates import Templates


def host_time() -> datetime:
    """This machine's own clock; PostgreSQL's replaces it wherever there is one."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Chance:
    """Everything that differs from run to run. Tests bring their own; ``source`` None reads the database's clock."""

    host: Callable[[], datetime] = host_time
    monotonic: Callable[[], float] = ticking
    wait: Wait = threading.Event.wait
    source: Source | None = None
    roll: Callable[[], float] = random.random
    token: Callable[[], UUID] = uuid4

    def clock(self) -> Clock:
        source = self.source or database_time(self.host)
        return Clock(source=source, host=self.host, monotonic=self.monotonic, wait=self.wait)


def engine(settings: Settings, *, lanes: int | None = None) -> sa.Engine:
    """Safe to be made before a fork: a child never speaks over a connection of its parent.

    Keeps as many connections as a worker of so many lanes uses at once, the lanes' own and a few for its upkeep.
    """
    kept = (lanes or settings.lanes) + 4
    made = create(str(settings.database_url), portable=settings.claim == "portable", pool_size=kept)
    known = weakref.ref(made)

    def forget_connections() -> None:
        if (inherited := known()) is not None:
            inherited.dispose(close=False)

    os.register_at_fork(after_in_child=forget_connections)
    return made


def ring(settings: Settings) -> KeyRing | WatchedRing:
    """Raises ConfigurationError where the file is missing, readable by others, or not a key ring."""
    return open_ring(str(settings.key_ring), text=settings.key_ring_text)


def routes(settings: Settings) -> tuple[Route, ...]:
    """The relays in the order in which they are tried; none means that mail is simulated."""
    if settings.smtp_url is None:
        return ()
    login = {"username": settings.smtp_user, "auth": settings.smtp_auth, **_secret(settings)}
    first = _route(settings, settings.smtp_url, "primary", limit=settings.limit, **login)
    if settings.smtp_url_2 is None:
        return (first,)
    return (first, _route(settings, settings.smtp_url_2, "secondary", limit=settings.limit_2))


def rules(settings: Settings) -> Rules:
    """What the settings mean for a worker."""
    backoff = Backoff(settings.backoff_base, settings.backoff_cap, settings.backoff_jitter)
    return Rules(
        sender=settings.sender,
        batch=settings.batch,
        cycle=settings.cycle,
        lease=settings.lease,
        handover_limit=settings.handover_limit,
        policy=Policy(backoff, counts_channel_faults=settings.counts_channel_faults),
        literal_5xx=settings.literal_5xx,
        breaker=not settings.counts_channel_faults,
        unknown_key_grace=settings.unknown_key_grace,
        window=settings.window,
        give_up_after=settings.give_up_after,
        keeping=Keeping(settings.keep_payload, settings.keep_done, settings.keep_dead, settings.purge),
        error_detail=settings.error_detail,
        stop_grace=settings.stop_grace,
        deployment=settings.deployment,
        redirect_to=settings.redirect_to,
        wakeup=Wakeup(settings.wakeup),
    )


def parts(settings: Settings, *, over: sa.Engine | None = None, chance: Chance | None = None) -> Parts:
    """What a worker works with; ``over`` is an engine that exists already."""
    settings.require(Role.WORKER)
    chance = chance or Chance()
    folder = settings.template_folder
    return Parts(
        engine=bound_waits(over if over is not None else engine(settings)),
        ring=ring(settings),
        routes=routes(settings),
        rules=rules(settings),
        clock=chance.clock(),
        roll=chance.roll,
        token=chance.token,
        templates=None if folder is None else _templates(folder),
    )


def _templates(folder: str) -> Templates:
    """Few workers render late: the others need no Jinja in their memory."""
    from outbox_admin.delivery.templates import Templates

    return Templates(folder)


def worker(
    settings: Settings,
    *,
    kind: str = "worker",
    lanes: int | None = None,
    paused: bool = False,
    over: sa.Engine | None = None,
    chance: Chance | None = None,
    parent: int | None = None,
) -> Worker:
    """To be made in the process that runs it. ``kind``: worker, gunicorn or embedded; ``parent``: see signals.Call."""
    ready = parts(settings, over=over if over is not None else engine(settings, lanes=lanes), chance=chance)
    made = Worker(ready, lanes=lanes or settings.lanes, kind=kind, paused=paused, parent=parent)
    announce(made.parts, made.name)
    return made


def outbox(settings: Settings | None = None) -> Outbox:
    """The producer by the same settings."""
    return Outbox.from_settings(settings or Settings.from_env())


def console(settings: Settings | None = None, *, notice: str | None = None) -> Flask:
    """The console as an application of its own; with its worker, where the settings want it embedded.

    ``notice`` is a sentence for every page. Nothing is asked of the database before the first request, so that a
    server may load it before it forks.
    """
    from outbox_admin.web import create_app
    from outbox_admin.web.settings import of_settings

    settings = settings or Settings.from_env()
    settings.require(Role.CONSOLE)
    database = engine(settings)
    app = create_app(of_settings(settings, notice=notice, version=version("outbox-admin")), engine=database)
    if settings.embedded_worker:
        _embed(settings, database)
    return app


def host() -> Host:
    """The worker as an application for a WSGI server; a fork, or its absence, decides where it starts."""
    from outbox_admin.delivery.host import Host

    settings = Settings.from_env()
    settings.require(Role.WORKER)
    log_to_stderr()
    database = engine(settings)
    ring(settings)  # a fault shows now, not in each child
    hosted = Host(
        lambda: worker(settings, kind="gunicorn", over=database),
        engine=database,
        source=database_time(host_time),
        token=settings.metrics_token,
    )
    AfterFork(hosted.start).arm()
    return hosted


def log_to_stderr() -> None:
    """A line per try, also under a server that configures no logging of ours; who has handlers keeps them."""
    logger = logging.getLogger("outbox_admin")
    if logger.hasHandlers():
        return
    lines = logging.StreamHandler()
    lines.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)


def _embed(settings: Settings, database: sa.Engine) -> None:
    """A worker in every process that serves. Its parts are tried now, so that a bad setting stops the start."""
    from outbox_admin.delivery.host import run_beside
    from outbox_admin.web.doors import serves_here

    settings.require(Role.WORKER)
    ring(settings)
    routes(settings)
    log_to_stderr()
    if serves_here():
        AfterFork(lambda: run_beside(lambda: worker(settings, kind="embedded", over=database))).arm()


def _secret(settings: Settings) -> dict[str, Any]:
    """With XOAUTH2 the password is the access token."""
    secret = settings.smtp_password
    if secret is not None and settings.smtp_auth == Auth.XOAUTH2:
        return {"token": lambda: secret}
    return {"password": secret}


def _route(settings: Settings, url: str, name: str, **options: Any) -> Route:
    return Route.from_url(
        url,
        name=name,
        tls=settings.tls,
        reply_timeout=settings.smtp_timeout,
        final_timeout=settings.smtp_final_timeout,
        handover_limit=settings.handover_limit,
        helo=settings.helo,
        ca_file=settings.smtp_ca,
        **options,
    )
