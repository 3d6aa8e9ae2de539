"""``resume``: lets workers send that wait for a word: of a copied database, or started with ``worker --paused``."""

from __future__ import annotations

import sys
from datetime import datetime

import click
import sqlalchemy as sa

from outbox_admin.cli.boundary import Refused
from outbox_admin.cli.desk import actor, open_engine, read_settings
from outbox_admin.cli.moments import MOMENT, Given, ago
from outbox_admin.cli.output import json_option, print_json
from outbox_admin.core.words import plural
from outbox_admin.db.reads import clock
from outbox_admin.db.reads import deployment as reads
from outbox_admin.db.store import audit
from outbox_admin.db.store import deployment as store


@click.command()
@click.option("--confirm-copy", is_flag=True, help="This copied database is now the one that sends.")
@click.option(
    "--sent-since",
    type=MOMENT,
    metavar="TIME",
    help="When the copy was made: what the original may have sent since becomes uncertain instead of being sent.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def resume(confirm_copy: bool, sent_since: Given | None, yes: bool, as_json: bool) -> None:
    """Let workers send that wait for it: those started with `worker --paused`, and those of a copied database.

    A database that was copied or restored elsewhere is noticed, and nothing is sent from it until --confirm-copy says
    that it has taken the original's place. What waited when the copy was made is then sent; if the original went on
    sending, some of it for the second time. With --sent-since, each message that was enqueued by TIME and is due by
    now becomes uncertain instead: it keeps its payload and is not sent until you `settle` it. A TIME too late costs
    work, one too early costs second copies.

    \b
    Examples:
      outbox-admin resume
      outbox-admin resume --confirm-copy --sent-since 2026-12-01T03:00Z
    """
    settings = read_settings()
    engine = open_engine(settings)
    try:
        with engine.connect().execution_options(sqlite_begin="DEFERRED") as db:
            since = _since(db, sent_since)
            _check(db, settings.deployment, confirm=confirm_copy, settles=since is not None)
            waiting = 0 if since is None else store.count_sent_since(db, since=since, now=clock.now(db))
        if waiting and not yes:
            _ask(waiting)
        settled = 0 if since is None else _settle_all(engine, since, waiting, quiet=as_json)
        _resume(engine, settings.deployment, confirm=confirm_copy, settled=settled)
    finally:
        engine.dispose()
    _tell(settled, confirmed=confirm_copy, as_json=as_json)


def _since(db: sa.Connection, given: Given | None) -> datetime | None:
    if given is None:
        return None
    now = clock.now(db)
    since = ago(given, now)
    if since > now:
        raise Refused(f"{since:%Y-%m-%dT%H:%MZ} lies in the future; give the time when the copy was made.")
    return since


def _check(db: sa.Connection, name: str, *, confirm: bool, settles: bool) -> None:
    copied = reads.copied(db, name=name)
    if copied is not None and not confirm:
        raise Refused(
            f"This database is a copy (what differs: {', '.join(copied.differs)}). "
            "If it is now the one that sends, add --confirm-copy; see --sent-since for what was sent meanwhile."
        )
    if copied is None and confirm:
        raise Refused("This database is no copy, there is nothing to confirm; leave out --confirm-copy.")
    if copied is None and settles and (sending := reads.sending_workers(db, now=clock.now(db))):
        raise Refused(
            f"{plural(sending, 'worker')} may be sending from this database; stop them, "
            "or start them with --paused, before messages are set aside."
        )


def _ask(waiting: int) -> None:
    """Nobody at the keyboard is a refusal: so many messages are not set aside unasked."""
    click.confirm(
        f"The original may have sent {plural(waiting, 'message')}: set aside as uncertain, and not sent "
        "until settled. Go on?",
        abort=True,
        err=True,
    )


def _settle_all(engine: sa.Engine, since: datetime, waiting: int, *, quiet: bool) -> int:
    """In steps, each a transaction of its own; broken off, it is simply run again."""
    settled = 0
    with click.progressbar(length=waiting, label="Settling", file=sys.stderr, hidden=quiet) as bar:
        while True:
            with engine.begin() as db:
                step = store.settle_sent_since(db, since=since, now=clock.now(db))
            if not step:
                return settled
            bar.update(step)
            settled += step


def _resume(engine: sa.Engine, name: str, *, confirm: bool, settled: int) -> None:
    with engine.begin() as db:
        now = clock.now(db)
        if confirm and not store.confirm_copy(db, name=name):
            raise Refused("Somebody else has confirmed this copy meanwhile.")
        store.resume(db, now=now)
        target = "copy" if confirm else "paused"
        audit.add(db, at=now, actor=actor(), action="resume", target=target, count=settled)


def _tell(settled: int, *, confirmed: bool, as_json: bool) -> None:
    if as_json:
        print_json({"confirmed": confirmed, "uncertain": settled})
        return
    if settled:
        click.echo(
            f"{plural(settled, 'message')} became uncertain; see `outbox-admin list --state uncertain`."
        )
    click.echo("Workers that waited for this send from their next cycle on.")
