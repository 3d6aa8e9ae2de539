"""Ties a test to the line of the README that it proves. Knows no line by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

PROVEN: dict[str, list[str]] = {}


def proves(*labels: str) -> Callable[[F], F]:
    """``@proves("1a")`` for a promise, ``@proves("order")`` for a figure, ``@proves("OUTBOX_5XX")`` for a rule."""

    def note(test: F) -> F:
        for label in labels:
            PROVEN.setdefault(label, []).append(test.__name__)
        return test

    return note
