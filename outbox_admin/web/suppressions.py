"""The suppression list: addresses that are not mailed. For admins; no address stands in an address bar or a log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from flask import Blueprint, abort, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from outbox_admin.core.address import parse
from outbox_admin.core.health import Count
from outbox_admin.core.hold import reason_of
from outbox_admin.db.reads import suppressions as reads
from outbox_admin.db.reads.suppressions import Suppressed
from outbox_admin.db.store import suppressions as store
from outbox_admin.errors import MessageRefused
from outbox_admin.web import audit
from outbox_admin.web.frame import leave_note
from outbox_admin.web.guard import access
from outbox_admin.web.present import Moment, mask, moment
from outbox_admin.web.visit import Role, Visit, visit

pages = Blueprint("suppressions", __name__)

SIZE = 100
_SEALED = "suppression"
#: As the command writes it; never the address.
TARGET = "suppression"


@dataclass(frozen=True, slots=True)
class Line:
    """``token`` stands for the address in links and forms."""

    shown: str
    reason: str
    who: str
    since: Moment
    token: str


@dataclass(frozen=True, slots=True)
class Listing:
    """``sought`` is the masked address that was looked for, empty for the whole list."""

    lines: tuple[Line, ...]
    number: Count
    sought: str
    more_url: str | None


@pages.get("/suppressions")
@access(Role.ADMIN)
def show() -> str:
    return render_template("outbox/suppressions.html", listing=_listing(visit()))


@pages.post("/suppressions/search")
@access(Role.ADMIN)
def search() -> BaseResponse:
    try:
        key = parse(request.form.get("q", "").strip()[:320], field="address").key
    except MessageRefused:
        return leave_note(redirect(url_for("outbox.suppressions.show"), 303), "That is not a valid address.")
    return redirect(url_for("outbox.suppressions.show", rq=_seal(visit(), key)), 303)


@pages.get("/suppressions/new")
@access(Role.ADMIN)
def ask() -> BaseResponse:
    return _question("", "")


@pages.post("/suppressions")
@access(Role.ADMIN)
def add() -> BaseResponse:
    asking, address, why = (
        visit(),
        request.form.get("address", "").strip()[:320],
        request.form.get("reason", ""),
    )
    try:
        key, reason = parse(address, field="address").key, reason_of(why)
    except MessageRefused as refusal:
        return _question(address, why, refusal)
    added = store.add(asking.db, recipient_key=key, reason=reason, who=asking.actor, now=asking.now)
    audit.record(asking, "suppress", target=TARGET, result="done" if added else "refused")
    asking.db.commit()
    note = "The address is suppressed: nothing is sent to it." if added else "It was on the list already."
    return leave_note(redirect(url_for("outbox.suppressions.show", rq=_seal(asking, key)), 303), note)


@pages.get("/suppressions/remove")
@access(Role.ADMIN)
def ask_remove() -> str:
    asking = visit()
    found = reads.find(asking.db, _opened(asking, request.args.get("rq", "")))
    if found is None:
        abort(404)
    return render_template("outbox/suppression_remove.html", line=_line(asking, found, now=asking.now))


@pages.post("/suppressions/remove")
@access(Role.ADMIN)
def remove() -> BaseResponse:
    asking = visit()
    done = store.remove(asking.db, recipient_key=_opened(asking, request.form.get("rq", "")))
    audit.record(asking, "unsuppress", target=TARGET, result="done" if done else "refused")
    asking.db.commit()
    if done:
        note = "The address is off the list. What was cancelled for it stays cancelled."
        return leave_note(redirect(url_for("outbox.suppressions.show"), 303), note)
    page = render_template(
        "outbox/suppressions.html",
        listing=_listing(asking),
        said="Nothing was changed: that address is not on the list any more.",
    )
    return make_response(page, 409)


def _listing(asking: Visit) -> Listing:
    sought = _opened(asking, request.args.get("rq", ""))
    after = _opened(asking, request.args.get("after", ""))
    if sought:
        one = reads.find(asking.db, sought)
        found, more = ([one] if one is not None else []), False
    else:
        read = reads.page(asking.db, limit=SIZE + 1, after=after)
        found, more = read[:SIZE], len(read) > SIZE
    further = _seal(asking, found[-1].recipient_key) if more else None
    return Listing(
        lines=tuple(_line(asking, entry, now=asking.now) for entry in found),
        number=reads.capped_number(asking.db),
        sought=mask(sought) if sought else "",
        more_url=url_for("outbox.suppressions.show", after=further) if further else None,
    )


def _line(asking: Visit, entry: Suppressed, *, now: datetime) -> Line:
    token = _seal(asking, entry.recipient_key)
    since = moment(entry.created_at, now=now)
    return Line(mask(entry.recipient_key), entry.reason, entry.who, since, token)


def _question(address: str, reason: str, refusal: MessageRefused | None = None) -> BaseResponse:
    name = "The reason" if refusal is not None and refusal.field == "reason" else "The address"
    page = render_template(
        "outbox/suppression_new.html",
        address=address,
        reason=reason,
        field="" if refusal is None else refusal.field,
        problem="" if refusal is None else f"{name} {refusal.reason}.",
    )
    return make_response(page, 200 if refusal is None else 422)


def _seal(asking: Visit, key: str) -> str:
    return asking.console.signer.seal(_SEALED, key)


def _opened(asking: Visit, token: str) -> str:
    """Empty for a token that is not ours."""
    return asking.console.signer.open(_SEALED, token) or ""
