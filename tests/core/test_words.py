"""Spans as a person says them."""

import pytest

from outbox_admin.core.words import plural, span


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0 s"),
        (0.4, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "119 min"),
        (7200, "2 h"),
        (12_000, "3 h 20 min"),
        (71 * 3600 - 20, "71 h"),
        (96 * 3600, "4 d"),
    ],
)
def test_spans(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_plurals() -> None:
    assert (plural(1, "try", "tries"), plural(2, "try", "tries"), plural(1200, "message")) == (
        "1 try",
        "2 tries",
        "1,200 messages",
    )
