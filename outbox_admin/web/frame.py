"""What stands around every page: names, navigation, preferences, the note left by the last action, static files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flask import Blueprint, Flask, Response, abort, g, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from outbox_admin.core.health import Count
from outbox_admin.db.reads import holds
from outbox_admin.db.reads import overview as reads
from outbox_admin.web import tickets
from outbox_admin.web.banners import Banner, banners
from outbox_admin.web.guard import PUBLIC, access, safe_next
from outbox_admin.web.present import Moment, moment
from outbox_admin.web.statics import SUFFIXES
from outbox_admin.web.visit import Role, console, visit

pages = Blueprint("frame", __name__)

THEMES = ("auto", "light", "dark")
DENSITIES = ("comfortable", "compact")
_VIEW, _NOTE = "outbox-view", "outbox-note"


@dataclass(frozen=True, slots=True)
class View:
    """Preferences of this browser; the server renders them, so nothing flashes."""

    theme: str = "auto"
    density: str = "comfortable"


@dataclass(frozen=True, slots=True)
class Frame:
    """Everything that base.html needs."""

    environment: str
    user: str | None
    role: str | None
    operator: bool
    admin: bool
    csrf: str = field(repr=False)
    view: View
    note: str | None
    dead: Count | None
    holds: int
    banners: tuple[Banner, ...]
    request_id: str
    time: Moment
    version: str
    here: str


def furnish(part: Blueprint | Flask) -> None:
    part.context_processor(_context)
    part.after_request(_forget_note)


def _context() -> dict[str, Any]:
    return {"frame": _frame(), "asset": asset, "next_page": safe_next(request.full_path.rstrip("?"))}


def _frame() -> Frame:
    now, settings = visit(), console().settings
    principal = now.principal
    readable = principal is not None and not _broken()
    return Frame(
        environment=settings.environment,
        user=principal.name if principal else None,
        role=principal.role.value if principal else None,
        operator=now.may(Role.OPERATOR),
        admin=now.may(Role.ADMIN),
        csrf=tickets.csrf_token(now),
        view=_view(),
        note=_read_note(),
        dead=reads.dead_letters(now.db) if readable else None,
        holds=holds.number(now.db, now=now.now) if readable else 0,
        banners=banners(now, readable=readable),
        request_id=now.request_id,
        time=moment(now.now, now=now.now),
        version=settings.version,
        here=(request.endpoint or "").removeprefix("outbox.").partition(".")[0],
    )


def _broken() -> bool:
    """Whether the page being made tells that the database cannot be read."""
    return bool(g.get("_outbox_broken"))


def asset(name: str) -> str:
    return url_for("outbox.frame.static", digest=console().statics.digest(name), name=name)


def leave_note(response: BaseResponse, text: str) -> BaseResponse:
    """One sentence for the next page, signed: nobody else can put words there."""
    signed = console().signer.sign("note", text.encode())
    response.set_cookie(
        _NOTE, signed, path="/", max_age=60, secure=console().settings.secure, httponly=True, samesite="Lax"
    )
    return response


def _read_note() -> str | None:
    found = console().signer.check("note", request.cookies.get(_NOTE, ""))
    g._outbox_note_read = found is not None
    return None if found is None else found.decode()


def _forget_note(response: BaseResponse) -> BaseResponse:
    if g.get("_outbox_note_read"):
        response.delete_cookie(
            _NOTE, path="/", secure=console().settings.secure, httponly=True, samesite="Lax"
        )
    return response


def _view() -> View:
    theme, _, density = request.cookies.get(_VIEW, "").partition(".")
    return View(theme if theme in THEMES else THEMES[0], density if density in DENSITIES else DENSITIES[0])


@pages.get("/static/<digest>/<path:name>")
@access(PUBLIC)
def static(digest: str, name: str) -> Response:
    path = console().statics.find(digest, name)
    if path is None:
        abort(404)
    response = Response(path.read_bytes(), mimetype=SUFFIXES[path.suffix])
    response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    return response


@pages.post("/preferences")
@access(Role.VIEWER)
def prefer() -> BaseResponse:
    """Theme and density, kept in this browser."""
    theme, density = request.form.get("theme", ""), request.form.get("density", "")
    page = safe_next(request.form.get("next", "")) or url_for("outbox.overview.show")
    response = redirect(page, 303)
    if theme in THEMES and density in DENSITIES:
        response.set_cookie(
            _VIEW,
            f"{theme}.{density}",
            path="/",
            max_age=365 * 86400,
            secure=console().settings.secure,
            httponly=True,
            samesite="Lax",
        )
    return response
