"""Every answer that is not the page asked for: one sentence, what to do, a reference. Never the exception's text."""

from __future__ import annotations

import logging
import traceback

import sqlalchemy.exc
from flask import Blueprint, Flask, Response, g, make_response, render_template, request
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as BaseResponse

from outbox_admin.web.guard import Locked, Refused, is_fragment
from outbox_admin.web.passwords import Busy

log = logging.getLogger("outbox_admin.web")

_SENTENCES = {
    400: ("Bad request", "The request could not be understood."),
    403: ("Not allowed", "You may not do this."),
    404: ("Not found", "There is nothing at this address."),
    405: ("Not allowed here", "This address does not take that kind of request."),
    410: ("No longer there", "This has expired."),
    413: ("Too large", "The request is too large."),
    429: ("Too many tries", "Wait a little, then try again."),
    500: ("Something went wrong", "The console made a mistake. Nothing was changed."),
    503: ("Not available", "Try again in a moment."),
}

#: PostgreSQL's word for a statement that its limit, or somebody, has cancelled.
CANCELLED = "57014"
_NARROW = (
    "The database needed too long for it. Narrow it (one state, a whole key, a recipient), then try again."
)


def answer_for(part: Blueprint | Flask) -> None:
    part.register_error_handler(HTTPException, _http)
    part.register_error_handler(sqlalchemy.exc.SQLAlchemyError, _database)
    part.register_error_handler(Busy, _busy)
    part.register_error_handler(Exception, _unexpected)


def _http(error: HTTPException) -> BaseResponse:
    if error.response is not None:
        return error.get_response()
    if isinstance(error, Locked):
        return _page("locked.html", 503)
    code = error.code or 500
    ours = isinstance(error, Refused) or getattr(error, "spoken", False)
    title, sentence = _SENTENCES.get(code, _SENTENCES[500])
    answer = tell(code, title=title, sentence=(ours and error.description) or sentence)
    for name in ("Retry-After", "Allow"):
        if (value := dict(error.get_headers()).get(name)) is not None:
            answer.headers[name] = value
    return answer


def _database(error: sqlalchemy.exc.SQLAlchemyError) -> BaseResponse:
    """The statement and its values may hold addresses; the server's code and the exception's type do not."""
    g._outbox_broken = True
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    if state == CANCELLED:
        log.warning("console: %s took too long and was cancelled", request.endpoint)
        return tell(503, title="This view took too long", sentence=_NARROW)
    log.error("console could not use the database: %s %s", type(error).__name__, state or "")
    return tell(503, title="Could not read the queue", sentence="The database did not answer as it should.")


def _busy(_: Busy) -> BaseResponse:
    answer = tell(503, title="Busy", sentence="Many people sign in right now. Try again in a moment.")
    answer.headers["Retry-After"] = "5"
    return answer


def _unexpected(error: Exception) -> BaseResponse:
    where = "".join(traceback.format_tb(error.__traceback__)[-3:])
    log.error("console failed: %s\n%s", type(error).__name__, where)
    title, sentence = _SENTENCES[500]
    return tell(500, title=title, sentence=sentence)


def tell(code: int, *, title: str, sentence: str) -> BaseResponse:
    """An error page. A region keeps what it shows: htmx does not swap these."""
    if is_fragment():
        return Response(status=code)
    return _page("error.html", code, title=title, sentence=sentence, again=request.method == "GET")


def _page(template: str, code: int, **values: object) -> BaseResponse:
    try:
        return make_response(render_template(f"outbox/{template}", code=code, **values), code)
    except sqlalchemy.exc.SQLAlchemyError:
        return Response(f"{code}: the database cannot be read.\n", status=code, mimetype="text/plain")
