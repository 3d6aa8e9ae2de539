"""One message: where it stands, what was tried, what can be done. Never what it says."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from flask import Blueprint, Response, abort, make_response, redirect, render_template, url_for
from werkzeug.wrappers import Response as BaseResponse

from outbox_admin.db.reads import message as reads
from outbox_admin.db.reads.plans import Selection
from outbox_admin.db.reads.rows import MessageDetail
from outbox_admin.db.store import operator, throttle
from outbox_admin.db.store.operator import RetryResult
from outbox_admin.db.store.throttle import Limit
from outbox_admin.web import audit
from outbox_admin.web.detail import detail
from outbox_admin.web.frame import leave_note
from outbox_admin.web.guard import access
from outbox_admin.web.regions import answer, region
from outbox_admin.web.retry import propose_for
from outbox_admin.web.visit import Role, Visit, visit

pages = Blueprint("message", __name__)

#: Looking at addresses one by one is a deed of its own.
REVEALS = Limit(free=60, first=timedelta(minutes=15))


@pages.get("/messages/<uuid:row_id>")
@access(Role.VIEWER)
def show(row_id: UUID) -> BaseResponse:
    return page_of(found(row_id))


@pages.get("/_f/messages/<uuid:row_id>")
@access(Role.VIEWER)
def fragment_show(row_id: UUID) -> Response:
    return answer("message.html", view=detail(visit(), found(row_id)))


@pages.post("/messages/<uuid:row_id>/reveal")
@access(Role.OPERATOR)
def reveal(row_id: UUID) -> BaseResponse:
    """Shows the recipient once, on this page only; noted in the audit log."""
    asking, message = visit(), found(row_id)
    subject = asking.console.signer.keyed_hash("reveal", asking.actor)
    if not throttle.charge(asking.db, subject=subject, limit=REVEALS, now=asking.now):
        audit.record(asking, "reveal", target=str(row_id), result="refused")
        asking.db.commit()
        abort(429)
    audit.record(asking, "reveal", target=str(row_id))
    asking.db.commit()
    return page_of(message, revealed=True)


@pages.post("/messages/<uuid:row_id>/retry")
@access(Role.OPERATOR)
def retry(row_id: UUID) -> BaseResponse:
    """One row that cannot become a double; a row in doubt goes through a plan."""
    asking, message = visit(), found(row_id)
    if message.doubtful and message.retryable:
        return propose_for(asking, Selection(ids=(row_id,)))
    result = operator.retry(asking.db, row_id, now=asking.now)
    return _done(asking, row_id, "retry", result)


@pages.get("/messages/<uuid:row_id>/cancel")
@access(Role.OPERATOR)
def ask_cancel(row_id: UUID) -> str:
    message = found(row_id)
    return render_template("outbox/cancel.html", view=detail(visit(), message))


@pages.post("/messages/<uuid:row_id>/cancel")
@access(Role.OPERATOR)
def cancel(row_id: UUID) -> BaseResponse:
    asking = visit()
    found(row_id)
    done = operator.cancel(asking.db, row_id, now=asking.now)
    audit.record(asking, "cancel", target=str(row_id), result="done" if done else "refused")
    asking.db.commit()
    if done:
        return leave_note(
            redirect(url_for("outbox.message.show", row_id=row_id), 303), "The message was withdrawn."
        )
    note = "Nothing was changed: only a message that waits or failed can be withdrawn."
    return page_of(found(row_id), note=note, code=409)


SAID = {
    RetryResult.MOVED: "The message is queued again, with all its attempts.",
    RetryResult.ALREADY_PENDING: "Nothing was changed: it is already queued.",
    RetryResult.SENDING: "Nothing was changed: a worker is sending it.",
    RetryResult.ALREADY_SENT: "Nothing was changed: it was already sent.",
    RetryResult.PAYLOAD_GONE: "Nothing was changed: its payload is gone.",
    RetryResult.EXPIRED: "Nothing was changed: its time has passed.",
    RetryResult.SUPERSEDED: "Nothing is sent: a newer message took its place.",
    RetryResult.SUPPRESSED: "Nothing was changed: its recipient is on the suppression list.",
    RetryResult.NOT_RETRYABLE: "Nothing was changed: a message in this state cannot be retried.",
    RetryResult.UNKNOWN: "Nothing was changed: there is no such message.",
}


def _done(asking: Visit, row_id: UUID, action: str, result: RetryResult) -> BaseResponse:
    audit.record(
        asking, action, target=str(row_id), result="done" if result is RetryResult.MOVED else result.value
    )
    asking.db.commit()
    if result is RetryResult.MOVED:
        return leave_note(redirect(url_for("outbox.message.show", row_id=row_id), 303), SAID[result])
    return page_of(found(row_id), note=SAID[result], code=409)


def found(row_id: UUID) -> MessageDetail:
    message = reads.find(visit().db, row_id)
    if message is None:
        abort(404, "There is no such message: purged, or it never existed.")
    return message


def page_of(
    message: MessageDetail, *, revealed: bool = False, note: str = "", code: int = 200
) -> BaseResponse:
    view = detail(visit(), message, revealed=revealed)
    page = render_template(
        "outbox/message.html", live=region("message.html", view=view), view=view, said=note
    )
    return make_response(page, code)
