"""Retry plans: what a retry would touch, asked on a page of its own; then how far it is.

The plan is stored when it is shown, so that it means what was shown. Confirming it twice does nothing twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from flask import Blueprint, Response, abort, make_response, redirect, render_template, request, url_for
from werkzeug.exceptions import Gone
from werkzeug.wrappers import Response as BaseResponse

from outbox_admin.core import catalogue
from outbox_admin.db.reads import plans as reads
from outbox_admin.db.reads.plans import Plan, Preview, Selection
from outbox_admin.db.store import plans as store
from outbox_admin.ids import new_id
from outbox_admin.web import addresses, audit
from outbox_admin.web.dead import read_filter
from outbox_admin.web.frame import leave_note
from outbox_admin.web.guard import access, safe_next
from outbox_admin.web.present import Moment, RowView, maybe, moment, row_view
from outbox_admin.web.regions import answer, region
from outbox_admin.web.visit import Role, Visit, visit

pages = Blueprint("retry", __name__)

#: Rows a minute; "" is as fast as the workers go.
PACES = (
    ("", "as fast as possible"),
    ("6000", "6,000 a minute"),
    ("1200", "1,200 a minute"),
    ("60", "60 a minute"),
)
#: From here on the operator types the number, and the plan is spread over time.
MANY = store.AT_ONCE


@dataclass(frozen=True, slots=True)
class Question:
    """What the operator is asked. ``only_doubtful``: nothing is left unless doubles are accepted."""

    id: str
    preview: Preview
    left: tuple[str, ...]
    breakdown: tuple[tuple[str, str, int], ...]
    samples: tuple[RowView, ...]
    only_doubtful: bool
    many: bool
    expires: Moment
    back: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a confirmed plan is."""

    id: str
    expected: int
    moved: int
    skipped: int
    percent: int
    running: bool
    confirmed: Moment
    finished: Moment | None
    owner: str
    pace: str


@pages.post("/retry-plans")
@access(Role.OPERATOR)
def propose() -> BaseResponse:
    """From ticked rows (``ids``) or from a filter."""
    ids = _ids(request.form.getlist("ids"))
    if "ids" in request.form or "state" not in request.form:
        if not ids:
            back = safe_next(request.form.get("next", "")) or url_for("outbox.dead.show")
            return leave_note(redirect(back, 303), "Nothing was selected.")
        return propose_for(visit(), Selection(ids=ids))
    return propose_for(visit(), Selection(wanted=read_filter(request.form)))


def propose_for(asking: Visit, selection: Selection) -> BaseResponse:
    preview = reads.preview(asking.db, selection, watermark=asking.now, now=asking.now)
    plan_id = new_id()
    store.create(
        asking.db,
        plan_id=plan_id,
        owner=asking.actor,
        selection=selection,
        expected=preview.total,
        now=asking.now,
    )
    asking.db.commit()
    back = safe_next(request.form.get("next", ""))
    return redirect(url_for("outbox.retry.show", plan_id=plan_id, next=back), 303)


@pages.get("/retry-plans/<uuid:plan_id>")
@access(Role.OPERATOR)
def show(plan_id: UUID) -> BaseResponse:
    asking = visit()
    plan = _own(asking, plan_id)
    if plan.confirmed_at is not None:
        return _progress_page(asking, plan)
    if plan.expires_at <= asking.now:
        raise _over()
    return _question_page(asking, plan)


@pages.get("/_f/retry-plans/<uuid:plan_id>")
@access(Role.OPERATOR)
def fragment_show(plan_id: UUID) -> Response:
    asking = visit()
    return answer("progress.html", progress=_progress(asking, _own(asking, plan_id)))


@pages.post("/retry-plans/<uuid:plan_id>/confirm")
@access(Role.OPERATOR)
def confirm(plan_id: UUID) -> BaseResponse:
    asking = visit()
    plan = _own(asking, plan_id)
    here = url_for("outbox.retry.show", plan_id=plan_id, next=safe_next(request.form.get("next", "")))
    if plan.confirmed_at is not None:
        return redirect(here, 303)
    doubtful = request.form.get("doubtful") == "1"
    preview = _preview(asking, plan)
    touched = preview.clean + (preview.doubtful if doubtful else 0)
    many = touched > MANY
    if many and _number(request.form.get("number", "")) not in (touched, preview.clean + preview.doubtful):
        return _question_page(
            asking, plan, problem=f"Type {touched} to confirm that so many messages are retried.", code=422
        )
    pace = _number(request.form.get("pace", "")) if many else None
    if not store.confirm(
        asking.db, plan_id, owner=asking.actor, include_doubtful=doubtful, pace=pace, now=asking.now
    ):
        raise _over()
    if not many:
        store.apply_now(asking.db, plan_id, now=asking.now)
    audit.record(asking, "retry-plan", target=str(plan_id), count=touched)
    asking.db.commit()
    return redirect(here, 303)


def _over() -> Gone:
    gone = Gone("This plan was over its ten minutes. Nothing was changed; make a new one.")
    gone.spoken = True  # type: ignore[attr-defined]
    return gone


def _own(asking: Visit, plan_id: UUID) -> Plan:
    plan = reads.find(asking.db, plan_id)
    if plan is None or plan.owner != asking.actor:
        abort(404)
    return plan


def _preview(asking: Visit, plan: Plan) -> Preview:
    return reads.preview(asking.db, plan.selection, watermark=plan.watermark, now=asking.now)


def _question_page(asking: Visit, plan: Plan, *, problem: str = "", code: int = 200) -> BaseResponse:
    question = _question(asking, plan)
    page = render_template(
        "outbox/retry_plan.html",
        question=question,
        problem=problem,
        paces=PACES,
        doubtful=request.form.get("doubtful"),
    )
    return make_response(page, code)


def _question(asking: Visit, plan: Plan) -> Question:
    preview = _preview(asking, plan)
    given: dict[str, Any] = {"watermark": plan.watermark, "now": asking.now}
    keep = asking.console.settings.keep_payload
    return Question(
        id=str(plan.id),
        preview=preview,
        left=_left(preview),
        breakdown=tuple(
            (catalogue.title(kind) if kind else "No cause recorded", template, count)
            for kind, template, count in reads.breakdown(asking.db, plan.selection, **given)
        ),
        samples=tuple(
            row_view(row, now=asking.now, keep_payload=keep)
            for row in reads.samples(asking.db, plan.selection, **given)
        ),
        only_doubtful=preview.clean == 0 and preview.doubtful > 0,
        many=preview.clean + preview.doubtful > MANY,
        expires=moment(plan.expires_at, now=asking.now),
        back=safe_next(request.values.get("next", "")) or url_for("outbox.dead.show"),
    )


def _left(preview: Preview) -> tuple[str, ...]:
    """Why rows are left alone."""
    reasons = (
        (preview.without_payload, "payload is gone"),
        (preview.expired, "time has passed"),
        (preview.superseded, "replaced by a newer message"),
        (preview.suppressed, "recipient is suppressed"),
        (preview.changed, "no longer failed, or refused for good"),
    )
    return tuple(f"{count:,} {reason}" for count, reason in reasons if count)


def _progress_page(asking: Visit, plan: Plan) -> BaseResponse:
    progress = _progress(asking, plan)
    live = region("progress.html", progress=progress)
    back = safe_next(request.values.get("next", "")) or url_for("outbox.dead.show")
    return make_response(render_template("outbox/retry_progress.html", live=live, back=back))


def _progress(asking: Visit, plan: Plan) -> Progress:
    return Progress(
        id=str(plan.id),
        expected=plan.expected,
        moved=plan.moved,
        skipped=plan.skipped,
        percent=100 if plan.finished_at else min(99, plan.moved * 100 // max(1, plan.expected)),
        running=plan.finished_at is None,
        confirmed=moment(plan.confirmed_at or plan.created_at, now=asking.now),
        finished=maybe(plan.finished_at, now=asking.now),
        owner=plan.owner,
        pace=f"{plan.pace:,} a minute" if plan.pace else "as fast as possible",
    )


def _ids(given: list[str]) -> tuple[UUID, ...]:
    found = []
    for text in dict.fromkeys(given[: addresses.SIZES[-1]]):
        try:
            found.append(UUID(text))
        except ValueError:
            abort(400)
    return tuple(found)


def _number(text: str) -> int | None:
    plain = text.replace(",", "").strip()
    return int(plain) if plain.isascii() and plain.isdigit() and len(plain) < 12 else None
