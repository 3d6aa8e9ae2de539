"""The README: its marked parts, and the tables that are made from the product.

``python -m tests.support.readme`` writes those tables anew; a test fails when they are stale.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import sqlalchemy as sa

from outbox_admin.cli import main
from outbox_admin.config import SETTINGS, Setting
from outbox_admin.db.schema import metadata

FILE = Path(__file__).resolve().parents[2] / "README.md"
HASHED = {"console_user.password_hash", "console_session.token_hash", "console_throttle.subject"}


def part(name: str) -> str:
    """The text between ``<!-- name -->`` and ``<!-- /name -->``."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", FILE.read_text(), re.DOTALL)
    assert found is not None, f"the README has no part {name}"
    return found[1]


def code(name: str) -> str:
    """The Python that follows ``<!-- name -->``."""
    found = re.search(rf"<!-- {name} -->\n```python\n(.*?)```", FILE.read_text(), re.DOTALL)
    assert found is not None, f"the README has no code {name}"
    return found[1]


def rows(name: str) -> list[list[str]]:
    """The cells of the table rows in a part."""
    lines = [line for line in part(name).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def settings_tables() -> str:
    found = []
    for section in dict.fromkeys(setting.section for setting in SETTINGS):
        found.append(f"**{section}**\n\n| name | type | default | |\n| --- | --- | --- | --- |\n")
        found += [_setting(setting) for setting in SETTINGS if setting.section == section]
        found.append("\n")
    return "".join(found).rstrip("\n") + "\n"


def _setting(setting: Setting) -> str:
    star = "*" if setting.secret else ""
    return f"| `{setting.name}`{star} | {setting.kind.word} | {_default(setting)} | {setting.sentence} |\n"


def _default(setting: Setting) -> str:
    default = f"`{setting.default}`" if setting.default is not None else ""
    if setting.in_development is not None:
        default += f"{', ' if default else ''}in development `{setting.in_development}`"
    if setting.in_plain is not None:
        default += f", plain `{setting.in_plain}`"
    return default


def columns_table() -> str:
    found = ["| table | sealed | hashed | in clear |\n| --- | --- | --- | --- |\n"]
    for table in metadata.sorted_tables:
        kinds: dict[str, list[str]] = {"sealed": [], "hashed": [], "clear": []}
        for column in table.columns:
            kinds[_kind(column)].append(f"`{column.name}`")
        cells = " | ".join(", ".join(names) for names in kinds.values())
        found.append(f"| `{table.name}` | {cells} |\n")
    return "".join(found)


def _kind(column: sa.Column[object]) -> str:
    if isinstance(column.type, sa.LargeBinary):
        return "sealed"
    return "hashed" if f"{column.table.name}.{column.name}" in HASHED else "clear"


def commands_table() -> str:
    return "".join(f"| `{name}` | {command.get_short_help_str(200)} |\n" for name, command in commands())


def commands() -> list[tuple[str, click.Command]]:
    """Every command with its whole name, groups opened."""
    found: list[tuple[str, click.Command]] = []
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        inner = command.commands.items() if isinstance(command, click.Group) else []
        found += [(f"{name} {sub}", each) for sub, each in inner] or [(name, command)]
    return found


MADE = {"settings": settings_tables, "columns": columns_table, "commands": commands_table}


def write() -> None:
    text = FILE.read_text()
    for name, make in MADE.items():
        made = f"<!-- {name} -->\n{make()}<!-- /{name} -->"
        text = re.sub(rf"<!-- {name} -->\n.*?<!-- /{name} -->", lambda _: made, text, flags=re.DOTALL)  # noqa: B023
    FILE.write_text(text)


if __name__ == "__main__":
    write()
