"""Where a password comes from: typed twice without echo, a file, or standard input. Never an argument."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from outbox_admin.cli.boundary import Refused
from outbox_admin.web.passwords import hash_password

F = TypeVar("F", bound=Callable[..., Any])


def password_file_option(command: F) -> F:
    """Adds ``--password-file``."""
    return click.option(
        "--password-file",
        metavar="FILE",
        help="Take the password from this file's first line; - for standard input. Without it you are asked.",
    )(command)


def ask_hash(password_file: str | None) -> str:
    """The hash of the new password; Refused where it is too short."""
    try:
        return hash_password(_read(password_file))
    except ValueError as reason:
        raise Refused(f"The password was not taken: {reason}.") from None


def _read(password_file: str | None) -> str:
    if password_file == "-":  # noqa: S105 - a place, no password
        return sys.stdin.readline().rstrip("\r\n")
    if password_file is not None:
        return Path(password_file).read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
    if not sys.stdin.isatty():
        raise Refused(
            "There is no terminal to ask for a password; give --password-file FILE, or - for standard input."
        )
    answer: str = click.prompt("Password", hide_input=True, confirmation_prompt="Once more")
    return answer
