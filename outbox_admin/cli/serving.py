"""``web`` and ``worker``: the two processes that are looked after."""

from __future__ import annotations

import os
import signal
import sys
from importlib.util import find_spec

import click

from outbox_admin import assemble
from outbox_admin.cli.boundary import Misconfigured
from outbox_admin.cli.desk import open_engine, read_settings
from outbox_admin.cli.output import json_option, print_json
from outbox_admin.cli.processes import Processes
from outbox_admin.config import Role, Settings
from outbox_admin.core.words import plural
from outbox_admin.delivery.common import Halt
from outbox_admin.delivery.worker import Worker


@click.command()
@click.option(
    "--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes of gunicorn."
)
@click.option(
    "--threads", type=click.IntRange(1, 256), default=8, show_default=True, help="Threads of each process."
)
def web(processes: int, threads: int) -> None:
    """Serve the console.

    Runs gunicorn where it is installed (`pip install "outbox-admin[server]"`). Production does not start without it;
    development then uses the development server.

    \b
    Examples:
      outbox-admin web
      OUTBOX_BIND=127.0.0.1:9000 outbox-admin web --processes 2
    """
    settings = read_settings(*_console_roles())
    open_engine(settings).dispose()
    host, port = settings.bind
    if find_spec("gunicorn") is not None:
        _become_gunicorn(f"{host}:{port}", processes, threads)
    if settings.production:
        raise Misconfigured(
            'The console needs gunicorn in production; run `pip install "outbox-admin[server]"`.'
        )
    assemble.log_to_stderr()
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(0)
    )  # so that an embedded worker is stopped, not cut off
    from werkzeug.serving import run_simple

    run_simple(host, port, assemble.console(settings), threaded=True)


@click.command()
@click.option("--lanes", type=click.IntRange(1, 256), help="SMTP connections; OUTBOX_LANES when not given.")
@click.option(
    "--processes", type=click.IntRange(1, 64), help="Worker processes; OUTBOX_PROCESSES when not given."
)
@click.option("--drain", is_flag=True, help="Work off what is due, then end.")
@click.option("--paused", is_flag=True, help="Send nothing until `outbox-admin resume`.")
@click.option("--parent", type=int, hidden=True)
@json_option
def worker(
    lanes: int | None, processes: int | None, drain: bool, paused: bool, parent: int | None, as_json: bool
) -> None:
    """Send what is due, until a signal ends it.

    TERM or INT: what is in hand is finished, the rest released at once; what a relay keeps for longer than
    OUTBOX_STOP_GRACE is cut off. A database that does not answer is waited for. With --drain: ends with 0 when nothing
    is due any more, with 1 when a fault of the channel stopped it before. With --paused (after a backup was restored,
    say) it claims and changes nothing until `outbox-admin resume`, which all workers started so before obey.

    With --processes 2 or more this process only looks after them: it starts anew what dies, passes on TERM and INT, and
    when it dies itself they finish and end. With --drain each of them prints what it sent.

    \b
    Examples:
      outbox-admin worker --lanes 8
      outbox-admin worker --processes 2
      outbox-admin worker --drain --json
    """
    if drain and paused:
        raise click.UsageError("Give --drain or --paused, not both.")
    settings = read_settings(Role.WORKER)
    assemble.log_to_stderr()
    number = 1 if parent is not None else processes or settings.processes
    if number > 1:
        sys.exit(Processes(_child, number, grace=settings.stop_grace, drain=drain).run())
    if not drain:
        made = assemble.worker(settings, lanes=lanes, paused=paused, parent=parent)
        sys.exit(made.run(before=lambda: open_engine(settings).dispose()))
    made = assemble.worker(settings, over=open_engine(settings), lanes=lanes, parent=parent)
    sys.exit(_drain(made, as_json))


def _child(pipe: int) -> list[str]:
    """The same command line over again, for one process."""
    program = [sys.executable, "-c", "import sys; from outbox_admin.cli import main; sys.exit(main())"]
    return [*program, *sys.argv[1:], "--parent", str(pipe)]


def _drain(made: Worker, as_json: bool) -> int:
    done = made.drain()
    copied = done.halted is Halt.COPIED
    counts = {
        "accepted": done.accepted,
        "rejected": done.rejected,
        "deferred": done.deferred,
        "faults": done.faults,
    }
    if as_json:
        print_json(counts | {"paused": done.paused, "failed": done.failed, "copied": copied})
    else:
        click.echo(
            f"{plural(done.accepted, 'message')} sent, {done.rejected} rejected, {done.deferred} deferred"
            + (f", {plural(done.faults, 'fault')} of the channel." if done.faults else ".")
        )
        if done.paused:
            click.echo("A fault of the channel stopped it; `outbox-admin status` names it.")
        if copied:
            click.echo("This database is a copy, nothing is sent from it; see `outbox-admin resume --help`.")
        elif done.failed:
            click.echo("The database stopped answering on the way; what was not sent is released.")
    return 1 if done.paused or done.failed or done.halted else 0


def _console_roles() -> tuple[Role, ...]:
    embedded = Settings.from_env().embedded_worker
    return (Role.CONSOLE, Role.WORKER) if embedded else (Role.CONSOLE,)


def _become_gunicorn(bind: str, processes: int, threads: int) -> None:
    """Replaces this process, so that signals reach gunicorn itself."""
    options = [
        *("--bind", bind, "--workers", str(processes), "--threads", str(threads)),
        *("--worker-class", "gthread", "--graceful-timeout", "30"),
        "outbox_admin.assemble:console()",
    ]
    os.execv(sys.executable, [sys.executable, "-m", "gunicorn", *options])  # noqa: S606 - no shell wanted
