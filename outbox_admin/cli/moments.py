"""Times on the command line: a moment with its zone, or a span from now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from outbox_admin.config import values

Given = datetime | timedelta


class Moment(click.ParamType[Given]):
    """``2026-12-01T08:00Z``, ``"2026-12-01 09:00+01:00"``, or a span such as ``90m``, ``2h`` or ``3d``."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Given:
        text = str(value)
        if (span := _span(text)) is not None:
            return span
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"{text!r} is neither a time such as 2026-12-01T08:00Z nor a span such as 2h.", param, ctx
            )
        if moment.utcoffset() is None:
            self.fail(
                f"{text!r} has no time zone; write one as in 2026-12-01T08:00Z or 2026-12-01T09:00+01:00.",
                param,
                ctx,
            )
        try:
            return moment.astimezone(UTC)
        except OverflowError:
            self.fail(f"{text!r} is outside the calendar.", param, ctx)


MOMENT = Moment()


def ahead(given: Given, now: datetime) -> datetime:
    """The moment itself, or so long after ``now``."""
    return given if isinstance(given, datetime) else now + given


def ago(given: Given, now: datetime) -> datetime:
    """The moment itself, or so long before ``now``."""
    return given if isinstance(given, datetime) else now - given


def _span(text: str) -> timedelta | None:
    try:
        found = values.SPAN.read(text)
    except ValueError:
        return None
    return found if isinstance(found, timedelta) and not text.isdigit() else None
