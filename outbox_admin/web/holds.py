"""Holds: what is kept back, why, since when and by whom; placing one and lifting it, each on a question page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from flask import Blueprint, Response, abort, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from outbox_admin.core.health import Held
from outbox_admin.core.hold import MAX_REASON, MAX_TEMPLATE, Scope, reason_of, value_of
from outbox_admin.core.stops import covered
from outbox_admin.db.reads import holds as reads
from outbox_admin.db.store import holds as store
from outbox_admin.errors import MessageRefused
from outbox_admin.web import audit
from outbox_admin.web.frame import leave_note
from outbox_admin.web.guard import access
from outbox_admin.web.present import Moment, maybe, moment
from outbox_admin.web.regions import answer, region
from outbox_admin.web.visit import Role, Visit, visit

pages = Blueprint("holds", __name__)

#: How long: value, words, span. The first is the default: a hold that nobody lifts is a queue that nobody empties.
SPANS = (
    ("1h", "1 hour", timedelta(hours=1)),
    ("4h", "4 hours", timedelta(hours=4)),
    ("24h", "24 hours", timedelta(hours=24)),
    ("", "until it is lifted", None),
)


@dataclass(frozen=True, slots=True)
class HoldView:
    id: str
    what: str
    reason: str
    who: str
    since: Moment
    until: Moment | None
    rows: str
    waiting: bool


@dataclass(frozen=True, slots=True)
class Wish:
    """The form as it was filled in; nothing is judged yet."""

    scope: Scope
    value: str
    reason: str
    lasts: str


@pages.get("/holds")
@access(Role.VIEWER)
def show() -> str:
    return render_template("outbox/holds.html", live=region("holds.html", holds=_all(visit())))


@pages.get("/_f/holds")
@access(Role.VIEWER)
def fragment_show() -> Response:
    return answer("holds.html", holds=_all(visit()))


@pages.get("/holds/new")
@access(Role.OPERATOR)
def ask() -> BaseResponse:
    """The address may carry what a link of another page has chosen."""
    return _question(_wish(request.args))


@pages.post("/holds")
@access(Role.OPERATOR)
def place() -> BaseResponse:
    asking, wish = visit(), _wish(request.form)
    try:
        value, reason = value_of(wish.scope, wish.value), reason_of(wish.reason)
    except MessageRefused as refusal:
        return _question(wish, refusal)
    hold_id = store.place(
        asking.db,
        scope=wish.scope,
        value=value,
        reason=reason,
        who=asking.actor,
        until=_until(wish.lasts, now=asking.now),
        now=asking.now,
    )
    audit.record(asking, "hold", target=_target(asking, hold_id))
    asking.db.commit()
    note = f"{covered(wish.scope, value)} is held. What is being handed over is not called back."
    return leave_note(redirect(url_for("outbox.holds.show"), 303), note)


@pages.get("/holds/<uuid:hold_id>/lift")
@access(Role.OPERATOR)
def ask_lift(hold_id: UUID) -> str:
    asking = visit()
    found = reads.find(asking.db, hold_id, now=asking.now)
    if found is None:
        abort(404)
    return render_template("outbox/hold_lift.html", hold=_view(found, now=asking.now))


@pages.post("/holds/<uuid:hold_id>/lift")
@access(Role.OPERATOR)
def lift(hold_id: UUID) -> BaseResponse:
    asking = visit()
    target = _target(asking, hold_id)
    done = store.lift(asking.db, hold_id, now=asking.now)
    audit.record(asking, "unhold", target=target, result="done" if done else "refused")
    asking.db.commit()
    if done:
        note = "The hold is lifted. The workers give its messages back to the queue with their next cycle."
        return leave_note(redirect(url_for("outbox.holds.show"), 303), note)
    live = region("holds.html", holds=_all(asking))
    said = "Nothing was changed: that hold is over, or somebody else has lifted it."
    return make_response(render_template("outbox/holds.html", live=live, said=said), 409)


def _target(asking: Visit, hold_id: UUID) -> str:
    """For the audit log, which outlives the hold: its id, then what it holds."""
    held = reads.find(asking.db, hold_id, now=asking.now)
    return held.hold.told if held is not None else str(hold_id)


def _all(asking: Visit) -> tuple[HoldView, ...]:
    return tuple(_view(held, now=asking.now) for held in reads.in_force(asking.db, now=asking.now))


def _view(held: Held, *, now: datetime) -> HoldView:
    hold = held.hold
    return HoldView(
        id=str(hold.id),
        what=covered(hold.scope, hold.value),
        reason=hold.reason,
        who=hold.who,
        since=moment(hold.created_at, now=now),
        until=maybe(hold.until, now=now),
        rows=str(held.rows),
        waiting=held.rows.value > 0,
    )


def _wish(given: Any) -> Wish:
    scope, lasts = given.get("scope", ""), given.get("lasts", SPANS[0][0])
    return Wish(
        scope=Scope(scope) if scope in list(Scope) else Scope.EVERYTHING,
        value="" if scope == Scope.EVERYTHING else given.get("value", "").strip()[: MAX_TEMPLATE + 1],
        reason=given.get("reason", "")[: MAX_REASON + 1],
        lasts=lasts if lasts in [name for name, _, _ in SPANS] else SPANS[0][0],
    )


def _question(wish: Wish, refusal: MessageRefused | None = None) -> BaseResponse:
    field = "" if refusal is None else "reason" if refusal.field == "reason" else "value"
    page = render_template(
        "outbox/hold_new.html",
        wish=wish,
        field=field,
        problem="" if refusal is None else f"{_NAMES.get(refusal.field, 'It')} {refusal.reason}.",
        spans=[(name, words) for name, words, _ in SPANS],
    )
    return make_response(page, 200 if refusal is None else 422)


_NAMES = {"reason": "The reason", "template": "The template", "domain": "The domain"}


def _until(lasts: str, *, now: datetime) -> datetime | None:
    length = next(length for name, _, length in SPANS if name == lasts)
    return None if length is None else now + length
