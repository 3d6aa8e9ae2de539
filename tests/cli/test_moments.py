"""Times on the command line: with a zone or as a span, never guessed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click
import pytest

from outbox_admin.cli.moments import MOMENT, ago, ahead

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "later"),
    [
        ("2026-12-01T10:00Z", timedelta(hours=2)),
        ("2026-12-01 11:00+01:00", timedelta(hours=2)),
        ("90m", timedelta(minutes=90)),
        ("2h", timedelta(hours=2)),
        ("3d", timedelta(days=3)),
        ("1.5h", timedelta(minutes=90)),
    ],
)
def test_a_moment_or_a_span(text: str, later: timedelta) -> None:
    given = MOMENT.convert(text, None, None)
    assert ahead(given, NOW) == NOW + later
    if isinstance(given, timedelta):
        assert ago(given, NOW) == NOW - later


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("2026-12-01T10:00", "time zone"),
        ("2026-12-01", "time zone"),
        ("tomorrow", "neither"),
        ("", "neither"),
        ("-2h", "neither"),
        ("15", "neither"),
        ("0001-01-01T00:00+14:00", "calendar"),
    ],
)
def test_what_could_be_misread_is_refused_with_the_cure(text: str, word: str) -> None:
    with pytest.raises(click.BadParameter, match=word):
        MOMENT.convert(text, None, None)
