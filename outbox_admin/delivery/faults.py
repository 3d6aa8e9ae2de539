"""Our own faults in words for the log: a type, an SQLSTATE, a place. Never the text of an exception.

The text of a database error may hold a whole row, that of a composing error an address or a body.
"""

from __future__ import annotations

from sqlalchemy import exc
from sqlalchemy.exc import DBAPIError

from outbox_admin.errors import OutboxError


class TemplateFault(OutboxError):
    """A template that is missing or does not render. The row fails with its payload kept: repaired, a retry sends it.

    The text names template, file, line and sort of fault; it may quote a name from the template, never the context.
    """


def describe(error: BaseException) -> str:
    """``OperationalError 57P01``, ``ValueError at compose.py:41``."""
    name = type(error).__name__
    if isinstance(error, DBAPIError):
        state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "sqlite_errorname", None)
        return f"{name} {state}" if state else name
    place = error.__traceback__
    if place is None:
        return name
    while place.tb_next is not None:
        place = place.tb_next
    file = place.tb_frame.f_code.co_filename.rsplit("/", 1)[-1]
    return f"{name} at {file}:{place.tb_lineno}"


def is_login_refused(error: DBAPIError) -> bool:
    """Whether a PostgreSQL server was reached, asked for a password, and then let nobody in.

    The driver tells no SQLSTATE of a connection that never came about; its text is the server's, in any language.
    """
    attempt = getattr(error.orig, "pgconn", None)
    return attempt is not None and bool(attempt.used_password or attempt.needs_password)


def is_refusal(error: Exception) -> bool:
    """Whether a statement failed for what stands in it, so that its repetition will fail too.

    Otherwise the database is away or busy: it may take the same statement in a moment.
    """
    if isinstance(error, DBAPIError):
        lasting = (exc.DataError, exc.IntegrityError, exc.ProgrammingError, exc.NotSupportedError)
        return isinstance(error, lasting) and not error.connection_invalidated
    if isinstance(error, exc.SQLAlchemyError):
        return isinstance(error, exc.StatementError)
    return not isinstance(error, OSError)
