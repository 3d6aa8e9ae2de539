"""What is printed: columns for people, JSON for programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from outbox_admin.cli.output import print_facts, print_json, print_table
from outbox_admin.core.lifecycle import State

MOMENT = datetime(2026, 12, 1, 8, 30, 5, tzinfo=UTC)


def test_columns_are_as_wide_as_their_widest_cell(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("id", "when"), [("a-long-id", MOMENT), ("b", None)])
    assert capsys.readouterr().out.splitlines() == [
        "ID         WHEN",
        "a-long-id  2026-12-01 08:30:05 UTC",
        "b          -",
    ]


def test_facts_without_a_value_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts({"state": State.SENT, "cause": None, "route": ""})
    assert capsys.readouterr().out == "state  sent\n"


def test_json_has_plain_values(capsys: pytest.CaptureFixture[str]) -> None:
    value = UUID("00000000-0000-4000-8000-000000000001")
    print_json(
        {"id": value, "at": MOMENT, "span": timedelta(minutes=1), "state": State.SENT, "name": "Björn"}
    )
    out = capsys.readouterr().out
    assert json.loads(out) == {
        "id": str(value),
        "at": "2026-12-01T08:30:05+00:00",
        "span": 60.0,
        "state": "sent",
        "name": "Björn",
    }
    assert "Björn" in out


def test_what_has_no_form_in_json_is_a_fault() -> None:
    with pytest.raises(TypeError, match="no form in JSON"):
        print_json({"key": b"octets"})


def test_no_text_of_a_producer_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("key",), [("\x1b[2J\u202egnp.exe\r\n",)])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert out.count("\n") == 2
