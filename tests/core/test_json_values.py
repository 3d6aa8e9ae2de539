"""A context is JSON, or refused with the path to what is not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from outbox_admin.core.json_values import json_copy
from outbox_admin.errors import MessageRefused
from tests.core.test_payload import JSON


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("context", "path"),
    [
        ({"at": datetime(2026, 12, 1, tzinfo=UTC)}, "context.at"),
        ({"order": {"lines": [1, 2, Decimal("1.5")]}}, "context.order.lines[2]"),
        ({"a": {"b": {1: "x"}}}, "context.a.b"),
        ({"a-b": {"c": b"x"}}, "context[…].c"),
        ({"tags": {"x"}}, "context.tags"),
        ({"name": Markup("<b>")}, "context.name"),
        ({"colour": Colour.RED}, "context.colour"),
        ({"n": float("nan")}, "context.n"),
        ({"n": float("inf")}, "context.n"),
        ({"n": 2**63}, "context.n"),
        ({"s": "a\ud83d"}, "context.s"),
        ({"\ud83d": "a"}, "context"),
        ({"f": print}, "context.f"),
        ([], "context"),
    ],
)
def test_what_is_no_json_value_is_refused_with_its_path(context: Any, path: str) -> None:
    with pytest.raises(MessageRefused) as caught:
        json_copy(context)
    assert caught.value.field == path


def test_depth_is_bounded_also_for_a_list_that_holds_itself() -> None:
    knot: list[Any] = []
    knot.append(knot)
    with pytest.raises(MessageRefused, match="nested"):
        json_copy({"a": knot})


def test_a_copy_does_not_follow_later_changes() -> None:
    lines = [1]
    copy = json_copy({"lines": lines})
    lines.append(2)
    assert copy == {"lines": [1]}


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), JSON, max_size=4))
def test_what_passes_survives_json(context: dict[str, Any]) -> None:
    try:
        copy = json_copy(context)
    except MessageRefused:
        return  # a number beyond 64 bits
    assert copy == context
    assert json.loads(json.dumps(copy)) == copy
