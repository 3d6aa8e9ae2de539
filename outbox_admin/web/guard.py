"""The one gate. Every view says who may use it; a view that says nothing is closed to everybody.

Nothing here knows a page; pages do not check roles themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from flask import Blueprint, Flask, Response, abort, current_app, redirect, request, url_for
from werkzeug.exceptions import HTTPException
from werkzeug.sansio.utils import host_is_trusted
from werkzeug.wrappers import Response as BaseResponse

from outbox_admin.db.reads import accounts
from outbox_admin.web import tickets
from outbox_admin.web.visit import Role, console, visit

View = TypeVar("View", bound=Callable[..., Any])

#: For views that need no sign-in: they must not touch the session either.
PUBLIC = "public"
#: For the sign-in page: no sign-in, but a cookie that binds its form.
ANONYMOUS = "anonymous"

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def access(needed: Role | str) -> Callable[[View], View]:
    """Declares who may use a view: a role, :data:`PUBLIC` or :data:`ANONYMOUS`."""

    def declare(view: View) -> View:
        view.outbox_access = needed  # type: ignore[attr-defined]
        return view

    return declare


def declared(endpoint: str) -> Role | str | None:
    found: Role | str | None = getattr(current_app.view_functions[endpoint], "outbox_access", None)
    return found


def is_fragment() -> bool:
    """What htmx swaps in has addresses of its own."""
    return (request.endpoint or "").rpartition(".")[2].startswith("fragment")


def protect(blueprint: Blueprint) -> None:
    blueprint.before_request(_admit)
    blueprint.after_request(_seal)


def protect_alone(app: Flask) -> None:
    """A console that has the application for itself also answers for addresses that do not exist."""
    app.before_request(_greet)
    app.after_request(_seal)


def _greet() -> None:
    if request.endpoint is None:
        _check_host()
        tickets.recognise(visit(), polling=False)


def _admit() -> BaseResponse | None:
    needed = declared(request.endpoint or "")
    if needed == PUBLIC:
        return None
    _check_host()
    if is_fragment() and "HX-Request" not in request.headers:
        return redirect(parent_page(), 303)
    asking = visit()
    tickets.recognise(asking, polling=is_fragment())
    if request.method not in ("GET", "HEAD"):
        _check_origin()
        if not tickets.csrf_holds(asking):
            raise Refused("This form is no longer valid. Load the page again and repeat.")
    if needed == ANONYMOUS:
        return None
    if asking.principal is None:
        return _to_sign_in()
    if not isinstance(needed, Role) or not asking.may(needed):
        raise Refused(f"This needs the role {needed}; you have {asking.principal.role}." if needed else "")
    return None


class Refused(HTTPException):
    """403 with a sentence of ours."""

    code = 403


class Locked(HTTPException):
    """503: there is no account yet, so nobody can sign in."""

    code = 503
    description = "The console is locked: it has no account yet."


def check_unlocked() -> None:
    if not accounts.any_account(visit().db):
        raise Locked


def _to_sign_in() -> BaseResponse:
    check_unlocked()
    if is_fragment():
        page = urlsplit(request.headers.get("HX-Current-URL", ""))
        answer = Response(status=401)
        answer.headers["HX-Redirect"] = _sign_in(page.path + (f"?{page.query}" if page.query else ""))
        return answer
    target = request.full_path.rstrip("?") if request.method == "GET" else ""
    return redirect(_sign_in(request.script_root + target if target else ""), 303)


def _sign_in(page: str) -> str:
    return url_for("outbox.account.sign_in", next=safe_next(page))


def safe_next(page: str) -> str | None:
    """A path inside the console, or None. Browsers read ``//host``, ``/\\host`` and ``/<tab>/host`` as other hosts."""
    home = url_for("outbox.overview.show")
    plain = page.isprintable() and "\\" not in page and " " not in page
    if not plain or not page.startswith(home) or page.startswith("//"):
        return None
    if page.startswith(url_for("outbox.account.sign_in")):
        return None
    return page


def parent_page() -> str:
    """The page whose region a fragment is."""
    endpoint = (request.endpoint or "").replace("fragment_", "")
    known: dict[str, Any] = {name: value for name, value in request.args.items() if name not in ("v", "rows")}
    return url_for(endpoint, **(request.view_args or {}), **known)


def _check_host() -> None:
    trusted = console().settings.trusted_hosts
    if trusted and not host_is_trusted(request.host, trusted):
        abort(400)


def _check_origin() -> None:
    """Both headers are set by browsers alone; plain http beyond localhost lacks the first."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        raise Refused("The request came from another site.")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        raise Refused("The request came from another site.")


def _seal(response: BaseResponse) -> BaseResponse:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    if "immutable" not in response.headers.get("Cache-Control", ""):
        response.headers["Cache-Control"] = "private, no-store"
        response.headers["Vary"] = "Cookie, HX-Request"
    if console().settings.secure:
        response.headers["Strict-Transport-Security"] = "max-age=31536000"
    return response
