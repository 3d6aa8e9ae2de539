"""Dead letters: how many of each kind, the plain lists, the groups by cause."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from flask import Blueprint, Response, render_template, request, url_for

from outbox_admin.core import catalogue
from outbox_admin.core.catalogue import restore
from outbox_admin.core.health import Count
from outbox_admin.core.lifecycle import DEAD, State
from outbox_admin.db.reads import dead as reads
from outbox_admin.db.reads.dead import DeadFilter, Group
from outbox_admin.db.reads.walks import Position
from outbox_admin.web import addresses
from outbox_admin.web.guard import access
from outbox_admin.web.present import Badge, Moment, RowView, moment, row_view
from outbox_admin.web.regions import answer, region
from outbox_admin.web.visit import Role, Visit, visit

pages = Blueprint("dead", __name__)

ORDER = "dead"


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the three counts."""

    state: str
    count: Count
    title: str
    note: str
    url: str
    tone: str


@dataclass(frozen=True, slots=True)
class GroupView:
    badge: Badge
    cause: str
    cure: str
    messages: int
    retryable: int
    doubtful: int
    first: Moment
    last: Moment
    templates: tuple[str, ...]
    payload_until: str
    url: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeadList:
    rows: tuple[RowView, ...]
    earlier_url: str | None
    later_url: str | None
    poll_url: str
    here_url: str
    selectable: bool


@pages.get("/dead-letters")
@access(Role.VIEWER)
def show() -> str:
    return render_template("outbox/dead.html", live=region("dead.html", **_overview(visit())))


@pages.get("/_f/dead-letters")
@access(Role.VIEWER)
def fragment_show() -> Response:
    return answer("dead.html", **_overview(visit()))


@pages.get("/dead-letters/list")
@access(Role.VIEWER)
def listed() -> str:
    asking, wanted = visit(), _wanted()
    place = addresses.spot(asking.console.signer, ORDER)
    return render_template(
        "outbox/dead_list.html",
        live=region("dead_list.html", listing=_listing(asking, wanted)),
        title=_title(wanted),
        kinds=_kinds(asking),
        wanted=wanted,
        fields=_fields(wanted),
        broken=place.broken,
        whole_url=url_for("outbox.dead.listed", state=wanted.state) if wanted.kind is not None else None,
    )


@pages.get("/_f/dead-letters/list")
@access(Role.VIEWER)
def fragment_listed() -> Response:
    asking = visit()
    return answer("dead_list.html", listing=_listing(asking, _wanted()))


def _overview(asking: Visit) -> dict[str, Any]:
    groups = reads.groups(asking.db)
    return {
        "kinds": _kinds(asking),
        "groups": tuple(_group(group, asking) for group in groups),
        "window": reads.WINDOW if sum(group.messages for group in groups) >= reads.WINDOW else None,
    }


def _kinds(asking: Visit) -> tuple[Kind, ...]:
    counts = reads.counts(asking.db)

    def kind(state: State, title: str, note: str, tone: str) -> Kind:
        return Kind(state.value, counts[state], title, note, url_for("outbox.dead.listed", state=state), tone)

    return (
        kind(State.FAILED, "Attempts used up", "Cure the cause, then retry.", "failed"),
        kind(State.REJECTED, "Refused", "Final; the payload is gone.", "rejected"),
        kind(State.UNCERTAIN, "In doubt", "May have arrived; you decide.", "retry"),
    )


def _group(group: Group, asking: Visit) -> GroupView:
    now, cause = asking.now, restore(group.phase, group.kind, group.code)
    wanted = DeadFilter(state=group.state, kind=group.kind or "", phase=group.phase, code=group.code)
    kept = group.payload_since
    return GroupView(
        badge=_BADGES[group.state],
        cause=catalogue.words(cause) if cause else "No cause recorded",
        cure=catalogue.cure(cause) if cause else "",
        messages=group.messages,
        retryable=group.retryable,
        doubtful=group.doubtful,
        first=moment(group.first, now=now),
        last=moment(group.last, now=now),
        templates=group.templates,
        payload_until=f"{kept + asking.console.settings.keep_payload:%d %b %Y}" if kept else "",
        url=url_for("outbox.dead.listed", **_fields(wanted)),
        fields=_fields(wanted),
    )


_BADGES = {
    State.FAILED: Badge("Failed", "triangle", "failed"),
    State.REJECTED: Badge("Rejected", "octagon", "rejected"),
    State.UNCERTAIN: Badge("Uncertain", "question", "retry"),
}


def _listing(asking: Visit, wanted: DeadFilter) -> DeadList:
    signer = asking.console.signer
    place = addresses.spot(signer, ORDER)
    page = reads.page(asking.db, wanted, size=addresses.size(), at=place.at, backwards=place.backwards)
    keep = asking.console.settings.keep_payload
    rows = tuple(row_view(row, now=asking.now, keep_payload=keep) for row in page.rows)

    def beside(name: str, index: int) -> str:
        row = page.rows[index]
        turned: dict[str, Any] = {name: addresses.cursor(signer, ORDER, Position(row.id, row.finished_at))}
        return url_for("outbox.dead.listed", **_fields(wanted), size=request.args.get("size"), **turned)

    kept: dict[str, Any] = {
        name: request.args[name] for name in ("after", "before", "size") if name in request.args
    }
    return DeadList(
        rows,
        beside("before", 0) if page.earlier and rows else None,
        beside("after", -1) if page.later and rows else None,
        url_for("outbox.dead.fragment_listed", **_fields(wanted), **kept),
        url_for("outbox.dead.listed", **_fields(wanted), **kept),
        asking.may(Role.OPERATOR) and any(row.retryable for row in rows),
    )


def _wanted() -> DeadFilter:
    return read_filter(request.args)


def read_filter(given: Any) -> DeadFilter:
    """From an address or a form. A code that is none, a state that is not dead: no such filter."""
    state = given.get("state", "")
    code = given.get("code", "")
    kind = given.get("kind")
    return DeadFilter(
        state=State(state) if state in DEAD else None,
        kind=None if kind is None else ("" if kind == "none" else _plain(kind)),
        phase=_plain(given.get("phase", "")) or None,
        code=int(code) if len(code) == 3 and code.isascii() and code.isdigit() else None,
        template=given.get("template", "").replace("\0", "")[: addresses.LONGEST],
    )


def _plain(text: str) -> str:
    return text.replace("\0", "")[:40]


def _fields(wanted: DeadFilter) -> dict[str, Any]:
    """The filter as an address or a form carries it."""
    given = {name: str(value) for name, value in asdict(wanted).items() if value not in (None, "")}
    return given | ({"kind": "none"} if wanted.kind == "" else {})


def _title(wanted: DeadFilter) -> str:
    titles = {State.FAILED: "Attempts used up", State.REJECTED: "Refused", State.UNCERTAIN: "In doubt"}
    title = titles[wanted.state] if wanted.state else "Dead letters"
    if wanted.kind is None:
        return title
    cause = restore(wanted.phase, wanted.kind or None, wanted.code)
    return f"{title}: {catalogue.words(cause) if cause else 'no cause recorded'}"
