"""Every command that a page, a finding or a message of ours names can be typed."""

import re
from pathlib import Path

import click

from outbox_admin.cli import main

ROOT = Path(__file__).resolve().parents[2]
PLACES = (*(ROOT / "outbox_admin").rglob("*.py"), *(ROOT / "templates").rglob("*.html"))
NAMED = re.compile(r"outbox-admin ([a-z]+)(?: ([a-z]+(?:-[a-z]+)*))?")


def test_every_command_that_is_named_exists() -> None:
    named = [(place, *found) for place in PLACES for found in NAMED.findall(place.read_text())]
    assert len(named) > 60
    unknown = [one for one in named if not _exists(*one[1:]) and not _is_prose(one[1])]
    assert unknown == []


def _exists(name: str, second: str) -> bool:
    """A group's second word must be one of its commands."""
    context = click.Context(main)
    command = main.get_command(context, name)
    if isinstance(command, click.Group) and second:
        return command.get_command(context, second) is not None
    return command is not None


def _is_prose(word: str) -> bool:
    """``outbox-admin`` as the name of the package in a sentence."""
    return word in ("development",)
