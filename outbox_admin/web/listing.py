"""The values of the list of messages: rows, heads that sort, ways to turn the page, filters and ways out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from flask import request, url_for

from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads import messages as reads
from outbox_admin.db.reads.messages import Ask, Filter, Page
from outbox_admin.db.reads.rows import MessageRow
from outbox_admin.web import addresses
from outbox_admin.web.present import RowView, mask, row_view
from outbox_admin.web.visit import Role, Visit


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter that is set, and the address without it; or a state to choose."""

    label: str
    url: str
    current: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A head that sorts. ``aria`` is the value of aria-sort, empty where this is not the order."""

    label: str
    url: str | None
    aria: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What the region shows. ``newer`` messages match and came after the list was made."""

    rows: tuple[RowView, ...]
    columns: dict[str, Column]
    earlier_url: str | None
    later_url: str | None
    older_url: str | None
    poll_url: str
    newer: int
    newest_url: str
    here_url: str
    filtered: bool
    selectable: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address asks for."""

    wanted: Filter
    ask: Ask
    recipient: str
    broken: bool


def listing(asking: Visit, asked: Asked, page: Page) -> Listing:
    rows, now = page.rows, asking.now
    views = tuple(row_view(row, now=now, keep_payload=asking.console.settings.keep_payload) for row in rows)
    ids, edges = [row.id for row in rows], "e" * page.earlier + "l" * page.later
    return Listing(
        rows=views,
        columns={name: _column(asked, name, label) for name, label in _COLUMNS.items()},
        earlier_url=_beside(asking, asked, rows, first=True) if page.earlier else None,
        later_url=_beside(asking, asked, rows, first=False) if page.later else None,
        older_url=_older(asking, asked, page),
        poll_url=_fragment(rows=addresses.pack(ids), edges=edges),
        newer=_newer(asking, asked, ids, page),
        newest_url=_url(asked),
        here_url=_url(asked, **{name: request.args.get(name) for name in ("after", "before")}),
        filtered=bool(chips(asked)),
        selectable=asking.may(Role.OPERATOR) and any(view.retryable for view in views),
    )


def _newer(asking: Visit, asked: Asked, ids: list[UUID], page: Page) -> int:
    """Counted at the top of the plain order only; elsewhere nobody expects them."""
    plain = asked.ask.sort == "created" and asked.ask.descending and not page.earlier
    if not ids or not plain:
        return 0
    return reads.newer(asking.db, asked.wanted, than=max(ids), now=asking.now)


def _beside(asking: Visit, asked: Asked, rows: Sequence[MessageRow], *, first: bool) -> str | None:
    if not rows:
        return None
    sort = asked.ask.sort
    place = reads.position(rows[0] if first else rows[-1], sort)
    token = addresses.cursor(asking.console.signer, f"messages:{sort}", place)
    return _url(asked, **{"before" if first else "after": token})


def _older(asking: Visit, asked: Asked, page: Page) -> str | None:
    """Where a search that stopped at its window goes on."""
    if page.searched_to is None:
        return None
    token = addresses.cursor(asking.console.signer, f"messages:{asked.ask.sort}", page.searched_to)
    return _url(asked, after=token)


_COLUMNS = {"created": "Created", "due": "Due", "attempts": "Attempts"}
_ARIA = {True: "descending", False: "ascending"}


def _column(asked: Asked, name: str, label: str) -> Column:
    sorts = asked.wanted.sorts
    if name == "due" and "finished" in sorts:
        name, label = "finished", "Finished"
    current = asked.ask.sort == name
    if name not in sorts:
        return Column(label if name != "due" else "Due / finished", None, "")
    down = not asked.ask.descending if current else name != "due"
    url = _url(asked, sort=name, order="desc" if down else "asc")
    return Column(label, url, _ARIA[asked.ask.descending] if current else "")


def state_chips(asked: Asked) -> tuple[Chip, ...]:
    def chip(label: str, state: str | None) -> Chip:
        chosen = asked.wanted.states == ((State(state),) if state else ())
        return Chip(label, _url(asked, state=state, sort=None, order=None, overdue=None, held=None), chosen)

    return (chip("All", None), *(chip(_STATE_LABELS[state], state.value) for state in State))


_STATE_LABELS = {
    State.PENDING: "Pending",
    State.SENDING: "Sending",
    State.SENT: "Sent",
    State.FAILED: "Failed",
    State.UNCERTAIN: "Uncertain",
    State.REJECTED: "Rejected",
    State.EXPIRED: "Expired",
    State.CANCELLED: "Cancelled",
    State.SUPERSEDED: "Superseded",
}


def chips(asked: Asked) -> tuple[Chip, ...]:
    """Every filter that is set but the state, each with a way out."""
    wanted = asked.wanted
    set_filters = (
        ("q", f"{'key is' if wanted.exact else 'key or template begins with'} “{wanted.text}”", wanted.text),
        ("rq", f"recipient {mask(asked.recipient)}", asked.recipient),
        ("template", f"template “{wanted.template}”", wanted.template),
        ("overdue", "overdue", wanted.overdue),
        ("held", "held", wanted.held),
        ("doubles", "possible doubles", wanted.doubles),
        ("key", f"sealed with key {wanted.key}", wanted.key),
        ("sort", "tried at least once", asked.ask.sort == "attempts" and wanted.states == (State.PENDING,)),
    )
    return tuple(Chip(label, _url(asked, **{name: None})) for name, label, is_set in set_filters if is_set)


def params(asked: Asked) -> dict[str, Any]:
    """The address's own parameters, cleaned; places in the list are not among them."""
    wanted, ask = asked.wanted, asked.ask
    size = ask.size if ask.size != addresses.SIZES[1] else None
    given: dict[str, Any] = {
        "state": [state.value for state in wanted.states] or None,
        "q": wanted.text or None,
        "rq": request.args.get("rq") if asked.recipient else None,
        "template": wanted.template or None,
        "overdue": "1" if wanted.overdue else None,
        "held": "1" if wanted.held else None,
        "doubles": "1" if wanted.doubles else None,
        "key": wanted.key or None,
        "size": size,
        "sort": ask.sort if ask.sort != "created" else None,
        "order": None if ask.descending == (ask.sort != "due") else "desc" if ask.descending else "asc",
    }
    return {name: value for name, value in given.items() if value is not None}


def _url(asked: Asked, **changed: Any) -> str:
    return url_for("outbox.messages.show", **{**params(asked), **changed})


def _fragment(**added: Any) -> str:
    kept: dict[str, Any] = {
        name: request.args.getlist(name) for name in request.args if name not in ("v", "rows", "edges")
    }
    return url_for("outbox.messages.fragment_show", **kept, **added)
