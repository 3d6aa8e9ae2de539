"""``purge``: the retention that workers apply by themselves, by hand and at once."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from outbox_admin.cli.desk import actor, open_engine, read_settings
from outbox_admin.cli.output import json_option, print_json
from outbox_admin.config import Settings
from outbox_admin.core.words import plural
from outbox_admin.db.reads import clock
from outbox_admin.db.store import audit, retention
from outbox_admin.db.store.retention import Purged


@click.command()
@json_option
def purge(as_json: bool) -> None:
    """Apply the retention now: payloads of dead letters, old rows that are done, old dead rows.

    How long they are kept is set by OUTBOX_KEEP_PAYLOAD, OUTBOX_KEEP_DONE and OUTBOX_KEEP_DEAD. Live messages are
    never touched.

    \b
    Example:
      OUTBOX_KEEP_DONE=7d outbox-admin purge
    """
    settings = read_settings()
    total = _purge_all(settings, quiet=as_json)
    if as_json:
        print_json(asdict(total))
    else:
        click.echo(f"{plural(total.payloads, 'payload')} cleared, {total.done + total.dead} rows removed.")


def _purge_all(settings: Settings, *, quiet: bool) -> Purged:
    """In steps, each a transaction of its own, so that workers are not kept waiting."""
    engine, total = open_engine(settings), Purged()
    with click.progressbar(length=0, label="Purging", show_pos=True, file=sys.stderr, hidden=quiet) as bar:
        while True:
            with engine.begin() as db:
                step = retention.purge(
                    db,
                    now=clock.now(db),
                    keep_payload=settings.keep_payload,
                    keep_done=settings.keep_done,
                    keep_dead=settings.keep_dead,
                )
            if not step.total:
                break
            bar.update(step.total)
            total = Purged(total.payloads + step.payloads, total.done + step.done, total.dead + step.dead)
    with engine.begin() as db:
        audit.add(db, at=clock.now(db), actor=actor(), action="purge", count=total.total)
    return total
