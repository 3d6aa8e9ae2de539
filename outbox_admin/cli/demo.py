"""``demo``: the whole thing in one process, with live traffic, and with --for a verdict at the end."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory

import click

from outbox_admin.cli.output import json_option, print_json, print_table
from outbox_admin.cli.stage import ADMIN, Stage, running
from outbox_admin.cli.verdict import Verdict, is_finished, judge
from outbox_admin.delivery.signals import SIGNALS
from outbox_admin.demo.traffic import Letter, traffic
from outbox_admin.producer import Outbox

#: Seconds before the end at which no new mail is added any more; and after it, until which the last may still leave.
CALM, PATIENCE = 3.0, 10.0
PACE = 1.0

#: The signals that have asked for the end. Of all waits only this queue's may be ended from a signal's function.
Calls = SimpleQueue[int]


@click.command()
@click.option(
    "--for", "seconds", type=click.FloatRange(5, 86_400), help="End by itself after so many seconds."
)
@click.option("--port", type=click.IntRange(1, 65_535), help="Port of the console; 8025 or a free one.")
@json_option
def demo(seconds: float | None, port: int | None, as_json: bool) -> None:
    """Run relay, worker, console and traffic in one process.

    Everything lives in a temporary folder and is gone at the end. With --for it ends by itself and exits 0 only if
    every message ended as it had to, and the relay really has the mails.

    \b
    Examples:
      outbox-admin demo
      outbox-admin demo --for 20 --json
    """
    with _called() as calls:
        with TemporaryDirectory(prefix="outbox-demo-") as folder, running(Path(folder), port) as stage:
            _welcome(stage, seconds)
            _play(stage, seconds, calls)
            verdict = judge(stage)
        if as_json:
            print_json({"url": stage.url} | asdict(verdict) | {"ok": verdict.good})
        else:
            _tell(verdict)
        sys.exit(0 if verdict.good or seconds is None else 1)


@contextmanager
def _called() -> Iterator[Calls]:
    """TERM and Ctrl-C end the traffic and interrupt nothing: what is half built or half taken down gets finished.

    So the folder goes with the demo whenever they come, and however often.
    """
    calls: Calls = SimpleQueue()
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: calls.put(number))
    try:
        yield calls
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # all is done: the process ends, with its own exit code


def _welcome(stage: Stage, seconds: float | None) -> None:
    """On the error stream, so that standard output holds the verdict alone."""
    lines = (
        f"Console   {stage.url}",
        f"Sign in   {ADMIN} / {stage.password}",
        f"Relay     catches everything on port {stage.relay.port}; always-deferred@ fails until you repair it:",
        f"          touch {stage.switch}",
        "          then press Retry on its page",
        f"End       {'by itself' if seconds else 'Ctrl-C'}",
    )
    for line in lines:
        click.echo(line, err=True)


def _play(stage: Stage, seconds: float | None, calls: Calls) -> None:
    """Adds a letter a second until it is called; with a limit it stops early enough for the last ones to arrive."""
    outbox = Outbox(keys=stage.ring, sender=str(stage.settings.sender))
    letters, begun = traffic(), time.monotonic()
    while seconds is None or time.monotonic() - begun < seconds - CALM:
        _post(stage, outbox, next(letters))
        if _is_called(calls, within=PACE):
            return
    while time.monotonic() - begun < seconds or not is_finished(stage):
        if time.monotonic() - begun > seconds + PATIENCE or _is_called(calls, within=0.1):
            return


def _is_called(calls: Calls, *, within: float) -> bool:
    try:
        calls.get(timeout=within)
    except Empty:
        return False
    return True


def _post(stage: Stage, outbox: Outbox, letter: Letter) -> None:
    with stage.engine.begin() as db:
        outbox.enqueue(
            db,
            letter.message,
            idempotency_key=letter.key,
            template_key=letter.template_key,
            priority=letter.priority,
        )


def _tell(verdict: Verdict) -> None:
    click.echo()
    print_table(("state", "messages", "attempts"), [(*_line(verdict, state),) for state in verdict.states])
    click.echo()
    print_table(
        ("named", "ended", "attempts", "as it had to"),
        [(one.name, one.state, one.attempts, "yes" if one.as_named else "no") for one in verdict.named],
    )
    click.echo(f"\nThe relay has {verdict.caught} mails; missing or too many: {len(verdict.wrong)}.")


def _line(verdict: Verdict, state: str) -> Iterator[object]:
    yield from (state, verdict.states[state], verdict.attempts[state])
