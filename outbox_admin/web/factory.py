"""Puts the console together: as an application of its own, or inside a host's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import sqlalchemy as sa
from flask import Blueprint, Flask
from flask_sqlalchemy import SQLAlchemy
from jinja2 import FileSystemLoader, PrefixLoader

from outbox_admin import assets
from outbox_admin.web import (
    account,
    dead,
    errors,
    frame,
    guard,
    holds,
    message,
    messages,
    overview,
    probes,
    retry,
    routes,
    settle,
    suppressions,
)
from outbox_admin.web.database import attach
from outbox_admin.web.proxies import BehindProxies
from outbox_admin.web.settings import WebSettings
from outbox_admin.web.signing import Signer
from outbox_admin.web.statics import Statics
from outbox_admin.web.visit import EXTENSION, Console

Clock = Callable[[], datetime]

TOPICS = (
    overview,
    messages,
    message,
    settle,
    dead,
    retry,
    holds,
    routes,
    suppressions,
    account,
    frame,
    probes,
)


def create_app(settings: WebSettings, *, engine: sa.Engine, clock: Clock | None = None) -> Flask:
    """The stand-alone console over ``engine``. ``clock`` None: the database's own clock."""
    app = Flask("outbox_admin.web", static_folder=None, template_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = 1024 * 1024
    db = attach(app, engine)
    mount(app, db=db, settings=settings, url_prefix=settings.url_prefix, clock=clock)
    guard.protect_alone(app)
    errors.answer_for(app)
    frame.furnish(app)
    if settings.proxies:
        behind = BehindProxies(app.wsgi_app, count=settings.proxies, peers=settings.proxy_peers)
        app.wsgi_app = behind  # type: ignore[method-assign]
    return app


def mount(
    app: Flask,
    *,
    db: SQLAlchemy,
    settings: WebSettings,
    url_prefix: str = "/outbox",
    clock: Clock | None = None,
) -> None:
    """The console inside ``app``, over the Flask-SQLAlchemy instance that it has already."""
    app.extensions[EXTENSION] = Console(settings, db, clock, Signer(settings.secret), Statics())
    app.register_blueprint(_blueprint(), url_prefix=url_prefix or None)


def _blueprint() -> Blueprint:
    """Templates are found as ``outbox/…``, so that a host's ``base.html`` stays the host's."""
    blueprint = Blueprint("outbox", __name__)
    blueprint.jinja_loader = PrefixLoader({"outbox": FileSystemLoader(assets.folder("templates"))})
    guard.protect(blueprint)
    errors.answer_for(blueprint)
    frame.furnish(blueprint)
    for topic in TOPICS:
        blueprint.register_blueprint(topic.pages)
    return blueprint
