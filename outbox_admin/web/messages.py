"""The list of messages. Its address is its state; an address of a person never stands in it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from flask import Blueprint, Response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from outbox_admin.core.address import parse
from outbox_admin.db.reads import messages as reads
from outbox_admin.db.reads.messages import Page
from outbox_admin.errors import MessageRefused
from outbox_admin.web import addresses
from outbox_admin.web.frame import leave_note
from outbox_admin.web.guard import access
from outbox_admin.web.listing import Asked, chips, listing, params, state_chips
from outbox_admin.web.regions import answer, region
from outbox_admin.web.visit import Role, Visit, visit

pages = Blueprint("messages", __name__)

_SEALED = "recipient"


@pages.get("/messages")
@access(Role.VIEWER)
def show() -> str | BaseResponse:
    asking = visit()
    if (row_id := _as_id(addresses.text("q"))) is not None:
        return redirect(url_for("outbox.message.show", row_id=row_id), 303)
    asked = _asked(asking)
    page = reads.page(asking.db, asked.wanted, asked.ask, now=asking.now)
    return render_template(
        "outbox/messages.html",
        live=region("messages.html", listing=listing(asking, asked, page)),
        states=state_chips(asked),
        chips=chips(asked),
        asked=asked,
        sizes=addresses.SIZES,
        kept=params(asked),
    )


@pages.get("/_f/messages")
@access(Role.VIEWER)
def fragment_show() -> Response:
    """The same rows as before, in the same places, as they stand now."""
    asking, asked = visit(), _asked(visit())
    rows = reads.by_ids(asking.db, addresses.unpack(request.args.get("rows", "")))
    edges = request.args.get("edges", "")
    page = Page(tuple(rows), earlier="e" in edges, later="l" in edges)
    return answer("messages.html", listing=listing(asking, asked, page))


@pages.post("/messages/search")
@access(Role.VIEWER)
def search() -> BaseResponse:
    """Turns the form into an address. What looks like a recipient is sealed first: logs and history see no address."""
    form = request.form
    kept: dict[str, Any] = {
        name: value
        for name in ("template", "size", "overdue", "held", "doubles", "key", "sort", "order")
        if (value := form.get(name, "").strip()[: addresses.LONGEST])
    }
    kept["state"] = form.getlist("state")
    text = form.get("q", "").strip()[:320]
    if "@" not in text:
        sealed = form.get("rq", "")
        return redirect(url_for("outbox.messages.show", **kept, q=text or None, rq=sealed or None), 303)
    try:
        key = parse(text, field="recipient").key
    except MessageRefused:
        return leave_note(
            redirect(url_for("outbox.messages.show", **kept), 303), "That is not a valid address."
        )
    return redirect(
        url_for("outbox.messages.show", **kept, rq=visit().console.signer.seal(_SEALED, key)), 303
    )


def _asked(asking: Visit) -> Asked:
    signer = asking.console.signer
    recipient = signer.open(_SEALED, request.args.get("rq", "")) or ""
    wanted = reads.narrowed(asking.db, addresses.message_filter(recipient))
    order = addresses.sort(wanted)
    place = addresses.spot(signer, f"messages:{order}")
    return Asked(wanted, addresses.ask(order, place), recipient, place.broken)


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text) if len(text) in (32, 36) else None
    except ValueError:
        return None
