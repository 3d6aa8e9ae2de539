"""Turns what may be expected to go wrong into one sentence and an exit code. Never a traceback for those.

Exit codes of every command: 0 done; 1 warning, or refused with nothing changed; 2 critical, or wrong usage;
78 settings, key ring or schema. What is not expected keeps its traceback: it is a fault of this program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import IO, Any, ClassVar

import click
import sqlalchemy as sa

from outbox_admin.errors import ConfigurationError, OutboxError

#: Characters of an argument that an error repeats; of a longer one its beginning and its end.
LONGEST = 80
_BEGINNING, _END = 50, 29


class Stop(click.ClickException):
    """Ends the command with a sentence on the error stream."""

    def show(self, file: IO[Any] | None = None) -> None:
        for line in self.message.splitlines():
            click.echo(f"outbox-admin: {line}", file=file, err=file is None)


class Refused(Stop):
    """Nothing was changed, and the sentence says why."""

    exit_code: ClassVar[int] = 1


class Critical(Stop):
    """What the command needs does not work."""

    exit_code: ClassVar[int] = 2


class Misconfigured(Stop):
    """Settings, key ring or schema; EX_CONFIG of sysexits.h."""

    exit_code: ClassVar[int] = 78


class Commands(click.Group):
    """The outermost group: the only place of the command line that catches.

    ``places`` names for each command the module and attribute that hold it; a command is imported when it is used.
    """

    def __init__(self, *args: Any, places: Mapping[str, str], **options: Any) -> None:
        super().__init__(*args, **options)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._places.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        found: click.Command = getattr(import_module(module), attribute)
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """No command can store, look up or print octets that are no text."""
        for number, given in enumerate(args, start=1):
            if not given.isascii() and any("\ud800" <= character <= "\udfff" for character in given):
                raise click.UsageError(f"Argument {number} is not valid UTF-8.", ctx)
        ctx.meta[__name__] = tuple(args)
        with _short_echoes(args):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with _short_echoes(ctx.meta[__name__]):
            return self._invoke(ctx)

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConfigurationError as fault:
            raise Misconfigured(str(fault)) from None
        except OutboxError as fault:
            raise Refused(str(fault)) from None
        except (sa.exc.DBAPIError, sa.exc.TimeoutError) as fault:
            raise Critical(database_sentence(fault)) from None
        except BrokenPipeError:
            raise  # whoever read our output has seen enough; click ends quietly
        except OSError as fault:
            raise Critical(_file_sentence(fault)) from None


@contextmanager
def _short_echoes(args: Sequence[str]) -> Iterator[None]:
    """Whatever complains, a long argument is not repeated whole."""
    try:
        yield
    except click.ClickException as complaint:
        vars(complaint).update(message=shortened(complaint.message, args))  # final only to a type checker
        raise


def shortened(message: str, args: Sequence[str]) -> str:
    """``message`` with those of ``args`` that stand in it cut to :data:`LONGEST`, as given or in lower case."""
    given = {*args, *(arg.partition("=")[2] for arg in args if arg.startswith("--"))}
    for long in sorted((arg for arg in given if len(arg) > LONGEST), key=len, reverse=True):
        for said in (long, long.casefold()):
            message = message.replace(said, f"{said[:_BEGINNING]}…{said[-_END:]}")
    return message


def database_sentence(fault: sa.exc.SQLAlchemyError) -> str:
    """Names the class and SQLSTATE alone: a driver's text may hold a row, an address or a password."""
    origin = getattr(fault, "orig", None) or fault
    state = getattr(origin, "sqlstate", None)
    what = f"{type(origin).__name__}, SQLSTATE {state}" if state else type(origin).__name__
    return (
        f"The database cannot be used ({what}); `outbox-admin db check` tells whether it answers "
        "and has the tables of this version."
    )


def _file_sentence(fault: OSError) -> str:
    where = f" {fault.filename}" if fault.filename else ""
    return f"The file{where} cannot be used: {fault.strerror or type(fault).__name__}."
