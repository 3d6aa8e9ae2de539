"""Routes on the overview: which one stands still, since when, why, and the button that tries it at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from flask import Blueprint, redirect, url_for
from werkzeug.wrappers import Response as BaseResponse

from outbox_admin.core import catalogue
from outbox_admin.core.breaker import Gate
from outbox_admin.core.words import span
from outbox_admin.db.reads.routes import Lone, RouteState
from outbox_admin.db.store import routes as store
from outbox_admin.web import audit
from outbox_admin.web.frame import leave_note
from outbox_admin.web.guard import access
from outbox_admin.web.present import Badge, Moment, maybe
from outbox_admin.web.visit import Role, visit

pages = Blueprint("routes", __name__)


@dataclass(frozen=True, slots=True)
class RouteView:
    """One line of the panel: a route, or a worker that has paused it for itself (``alone``)."""

    name: str
    badge: Badge
    since: Moment | None
    cause: str
    cure: str
    next: str
    accepted: Moment | None
    can_try: bool = False
    alone: bool = False


@pages.post("/routes/<string:route>/probe")
@access(Role.OPERATOR)
def probe(route: str) -> BaseResponse:
    """Brings the next probe forward. It risks no message, so it asks nothing first."""
    asking = visit()
    done = store.hasten(asking.db, route, now=asking.now)
    audit.record(asking, "probe", target=route[:200], result="done" if done else "refused")
    asking.db.commit()
    note = (
        f"Route {route} is tried with the next cycle."
        if done
        else f"Nothing was changed: route {route} is not paused, nor does a worker pause it alone."
    )
    return leave_note(redirect(url_for("outbox.overview.show"), 303), note[:300])


def views(states: list[RouteState], *, now: datetime) -> tuple[RouteView, ...]:
    found: list[RouteView] = []
    for state in states:
        found.append(_view(state, now=now))
        found += [_lone_view(state.name, lone, now=now) for lone in state.alone]
    return tuple(found)


def _view(state: RouteState, *, now: datetime) -> RouteView:
    return RouteView(
        name=state.name,
        badge=_badge(state),
        since=maybe(state.since, now=now),
        cause=catalogue.words(state.cause) if state.cause else "",
        cure=catalogue.cure(state.cause) if state.cause else "",
        next=_next(state, now=now),
        accepted=maybe(state.last_accepted_at, now=now),
        can_try=(state.gate is Gate.OPEN and state.probing_by is None) or bool(state.alone),
    )


def _badge(state: RouteState) -> Badge:
    match state.gate:
        case Gate.OPEN:
            return Badge("Paused", "pause", "failed" if state.is_used else "pending")
        case Gate.HALF_OPEN:
            return Badge("On trial", "again", "retry")
        case Gate.CLOSED:
            return (
                Badge("Open to mail", "check", "sent")
                if state.is_used
                else Badge("Not in use", "dash", "pending")
            )
    assert_never(state.gate)


def _next(state: RouteState, *, now: datetime) -> str:
    if state.gate is Gate.HALF_OPEN:
        return f"{state.on_trial} of {state.allowance} at a time being tried"
    if state.probing_by is not None:
        return f"{state.probing_by} tries it now"
    return _probe(state.next_probe_at, now=now)


def _probe(at: datetime | None, *, now: datetime) -> str:
    if at is None:
        return ""
    left = (at - now).total_seconds()
    return f"next try in {span(left)}" if left > 0 else "next try due now"


def _lone_view(route: str, lone: Lone, *, now: datetime) -> RouteView:
    return RouteView(
        name=lone.worker,
        badge=Badge("Paused alone", "pause", "retry"),
        since=maybe(lone.since, now=now),
        cause=catalogue.words(lone.cause) if lone.cause else "",
        cure="Others send over this route: look at that machine.",
        next=_probe(lone.next_probe_at, now=now),
        accepted=None,
        alone=True,
    )
