"""``suppress`` in a terminal: add, remove, list, import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from outbox_admin import Message
from outbox_admin.db.schema import audit_entry, suppression
from outbox_admin.producer import Outbox
from tests.cli.conftest import Shell


def listed(engine: sa.Engine) -> dict[str, str]:
    with engine.connect() as db:
        return {one.recipient_key: one.reason for one in db.execute(sa.select(suppression))}


def audit(engine: sa.Engine) -> list[tuple[str, str, int]]:
    with engine.connect() as db:
        read = sa.select(audit_entry.c.action, audit_entry.c.target, audit_entry.c.count)
        return [tuple(entry) for entry in db.execute(read.order_by(audit_entry.c.id))]


def test_an_address_is_added_found_by_enqueue_and_removed(
    shell: Shell, engine: sa.Engine, outbox: Outbox
) -> None:
    with engine.begin() as db:
        outbox.enqueue(db, Message("Jane@Example.com", "s", "t"), idempotency_key="before")
    told = shell.json("suppress", "add", " jane@EXAMPLE.com ", "--reason", "asked by phone")
    assert told == {"added": True, "waiting": 1}
    with engine.begin() as db:
        receipt = outbox.enqueue(db, Message("JANE@example.com", "s", "t"), idempotency_key="after")
    assert [row.state for row in receipt.suppressed] == ["cancelled"]
    given = ("enqueue", "--to", "jane@example.com", "--subject", "s", "--text", "t")
    assert "jane@example.com is on the suppression list" in shell(*given, "--key", "told").stdout
    assert shell.json(*given, "--key", "as data")["suppressed"] == ["jane@example.com"]
    again = shell("suppress", "add", "jane@example.com", "--reason", "another").stdout
    assert "on the list already" in again
    assert "1 waiting message to it will be cancelled" in again
    assert listed(engine) == {"jane@example.com": "asked by phone"}
    assert shell.json("suppress", "remove", "JANE@example.com") == {"removed": True}
    assert listed(engine) == {}
    assert "not on the suppression list" in shell("suppress", "remove", "jane@example.com", code=1).stderr
    assert audit(engine) == [
        ("suppress", "suppression", 1),
        ("suppress", "suppression", 0),
        ("unsuppress", "suppression", 1),
    ]


def test_the_list_comes_in_pages(shell: Shell) -> None:
    assert "No address" in shell("suppress", "list").stdout
    for name in ("c", "a", "b"):
        shell("suppress", "add", f"{name}@example.com", "--reason", "bounce")
    first = shell.json("suppress", "list", "--limit", "2")
    assert [one["recipient_key"] for one in first["addresses"]] == ["a@example.com", "b@example.com"]
    assert (first["total"], first["more"]) == (3, True)
    assert "--after b@example.com" in shell("suppress", "list", "--limit", "2").stdout
    rest = shell.json("suppress", "list", "--limit", "2", "--after", "b@example.com")
    assert [one["recipient_key"] for one in rest["addresses"]] == ["c@example.com"]
    assert rest["more"] is False


def test_a_file_with_a_bad_line_imports_nothing_and_names_the_lines(
    shell: Shell, engine: sa.Engine, tmp_path: Path
) -> None:
    file = tmp_path / "bounces.csv"
    file.write_text("email,reason\njane@example.com,hard bounce\nnobody\njoe@example.org\nx@@y\n")
    refused = shell("suppress", "import", str(file), code=1)
    assert "line 3:" in refused.stderr
    assert "line 5:" in refused.stderr
    assert "nobody" not in refused.output
    assert listed(engine) == {}
    assert audit(engine) == []

    told = shell.json("suppress", "import", str(file), "--skip-bad", "--reason", "bounces of March")
    assert (told["added"], told["known"], [bad["number"] for bad in told["bad"]]) == (2, 0, [3, 5])
    assert listed(engine) == {"jane@example.com": "hard bounce", "joe@example.org": "bounces of March"}
    assert audit(engine) == [("suppress", "suppression", 2)]


def test_an_import_may_be_repeated_and_takes_long_lists_from_standard_input(
    shell: Shell, engine: sa.Engine
) -> None:
    lines = "".join(f"user{number}@example.com\n" for number in range(1201)) + "USER7@example.com\n"
    result = shell("suppress", "import", "-", given=lines)
    assert "1,201 addresses added, 0 known already" in result.stdout
    assert "0 addresses added, 1201 known already" in shell("suppress", "import", "-", given=lines).stdout
    assert len(listed(engine)) == 1201


def test_many_bad_lines_are_counted(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("bad\n" * 33)
    stderr = shell("suppress", "import", str(file), code=1).stderr
    assert "line 20:" in stderr
    assert "line 21:" not in stderr
    assert "and 13 more" in stderr


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["add", "no address", "--reason", "x"], 1, "address:"),
        (["add", "jane@example.com", "--reason", ""], 1, "reason:"),
        (["add", "jane@example.com"], 2, "--reason"),
        (["import", "/nowhere/list.txt"], 2, "No such file"),
        (["remove", "no address"], 1, "address:"),
    ],
)
def test_what_is_no_address_is_refused_by_its_field(
    shell: Shell, count: Any, arguments: list[str], code: int, word: str
) -> None:
    result = shell("suppress", *arguments, code=code)
    assert word in result.output
    assert "no address\n" not in result.output
    assert count("suppression") == 0
