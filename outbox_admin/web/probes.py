"""For machines: is the process there, can it work, how is the queue. No session, no detail."""

from __future__ import annotations

import logging

import sqlalchemy as sa
from flask import Blueprint, Response, jsonify, request
from werkzeug.wrappers import Response as BaseResponse

from outbox_admin import metrics as figures
from outbox_admin.db.schema import outbox_meta
from outbox_admin.web.guard import PUBLIC, access
from outbox_admin.web.visit import console, visit

pages = Blueprint("probes", __name__)
log = logging.getLogger("outbox_admin.web")


@pages.get("/healthz")
@access(PUBLIC)
def healthz() -> Response:
    """The process answers."""
    return jsonify(status="ok")


@pages.get("/readyz")
@access(PUBLIC)
def readyz() -> tuple[Response, int]:
    """The database answers and has our tables."""
    try:
        visit().db.execute(sa.select(outbox_meta.c.name).limit(1))
    except sa.exc.SQLAlchemyError as error:
        log.error("not ready: %s", type(error).__name__)
        return jsonify(status="unavailable"), 503
    return jsonify(status="ready"), 200


@pages.get("/metrics")
@access(PUBLIC)
def metrics() -> BaseResponse:
    """For Prometheus, with the bearer token; without one configured there is no such page."""
    token = console().settings.metrics_token
    if token is None:
        return Response(status=404)
    if not figures.allowed(request.headers.get("Authorization"), token):
        return Response(status=401, headers={"WWW-Authenticate": "Bearer"})
    asking = visit()
    page = figures.exposition(asking.db.connection(), now=asking.now)
    return Response(page, content_type=figures.CONTENT_TYPE)
