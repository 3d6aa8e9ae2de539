"""``settle``: the operator's answer about messages in doubt. Conditional, audited, the same three as in the console."""

from __future__ import annotations

import sys

import click

from outbox_admin.cli.boundary import Refused
from outbox_admin.cli.desk import Desk, desk
from outbox_admin.cli.output import json_option
from outbox_admin.cli.queue import find
from outbox_admin.cli.repair import WORDS, note, tell
from outbox_admin.core.lifecycle import State
from outbox_admin.db.reads.rows import MessageDetail
from outbox_admin.db.store import operator
from outbox_admin.db.store.operator import Answer, RetryResult

_DONE = {
    Answer.RESEND: "waits to be sent again",
    Answer.ARRIVED: "is settled: it arrived",
    Answer.GIVE_UP: "is settled: given up",
}


@click.command()
@click.argument("which", nargs=-1, required=True, metavar="ID|KEY...")
@click.option("--resend", is_flag=True, help="Send it again, although a second copy is possible.")
@click.option("--arrived", is_flag=True, help="It arrived: it counts as sent.")
@click.option("--give-up", is_flag=True, help="It is not sent again, whether it arrived or not.")
@json_option
def settle(which: tuple[str, ...], resend: bool, arrived: bool, give_up: bool, as_json: bool) -> None:
    """Say what became of messages in doubt (state uncertain), of which nobody knows whether the relay took them.

    Look for the Message-ID in the relay's log first; `outbox-admin show` prints it. Of a key, every recipient's row in
    doubt is settled. Exits 1 where nothing was in doubt, or could not be sent again; nothing was changed then.

    \b
    Examples:
      outbox-admin settle 0190a1f2-7c3e-7d1a-9b42-0f6f5f8c2d11 --arrived
      outbox-admin settle invoice:2026-031 --resend
    """
    given = {Answer.RESEND: resend, Answer.ARRIVED: arrived, Answer.GIVE_UP: give_up}
    answers = [answer for answer, wanted in given.items() if wanted]
    if len(answers) != 1:
        raise click.UsageError("Say what became of it, one of --resend, --arrived and --give-up.")
    _settle_each(which, answers[0], as_json)


def _settle_each(which: tuple[str, ...], answer: Answer, as_json: bool) -> None:
    with desk() as at:
        done = [(row, _settle(at, row, answer)) for name in which for row in _in_doubt(at, name)]
    refused = [result for _, result in done if result != answer.value]
    if as_json:
        tell([(row.id, result) for row, result in done], as_json)
    else:
        tell([(row.id, _words(result)) for row, result in done], as_json)
    sys.exit(1 if refused else 0)


def _in_doubt(at: Desk, name: str) -> list[MessageDetail]:
    rows = find(at, name)
    doubtful = [row for row in rows if row.state is State.UNCERTAIN]
    if not doubtful:
        states = ", ".join(sorted({row.state.value for row in rows}))
        raise Refused(f"Nothing was changed: {name} is not in doubt, it is {states}.")
    return doubtful


def _settle(at: Desk, row: MessageDetail, answer: Answer) -> str:
    """The answer where it was taken; else why not, as RetryResult says it."""
    if answer is Answer.RESEND:
        resent = operator.resend(at.db, row.id, now=at.now)
        result = answer.value if resent is RetryResult.MOVED else resent.value
    else:
        taken = operator.settle(at.db, row.id, arrived=answer is Answer.ARRIVED, now=at.now)
        result = answer.value if taken else "refused"
    note(at, "settle", row.id, result)
    return result


def _words(result: str) -> str:
    if result in set(Answer):
        return _DONE[Answer(result)]
    if result in set(RetryResult):
        return WORDS[RetryResult(result)]
    return "was settled by somebody else a moment ago"
