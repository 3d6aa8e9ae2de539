"""``init``: database, key ring and first account, step by step, and what to do next. May be run again."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import sqlalchemy as sa

from outbox_admin.cli.boundary import Refused
from outbox_admin.cli.desk import actor, engine_of_command, read_settings
from outbox_admin.cli.keys import ring_source
from outbox_admin.cli.passwords import ask_hash, password_file_option
from outbox_admin.core.words import plural
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.crypto.ringfile import path_of
from outbox_admin.db import migrations
from outbox_admin.db.reads import accounts, clock
from outbox_admin.db.reads import keys as key_reads
from outbox_admin.db.store import audit
from outbox_admin.db.store import keys as key_store
from outbox_admin.db.store import users as user_store

NEXT_STEPS = """
Next:
  outbox-admin check --deploy     what is still missing before production
  outbox-admin worker             sends what is due
  outbox-admin web                the console
Back up the key ring {ring} together with the database, in another place.
"""


@click.command()
@click.option("--admin", metavar="NAME", help="Name of the first account; asked for when not given.")
@password_file_option
def init(admin: str | None, password_file: str | None) -> None:
    """Make database tables, key ring and the first admin of the console; leave alone what is there.

    \b
    Examples:
      OUTBOX_ENV=development outbox-admin init
      outbox-admin init --admin grace --password-file /run/secrets/outbox-admin
    """
    settings = read_settings()
    ring_path = path_of(ring_source(settings))
    engine = engine_of_command(settings)
    migrations.upgrade(engine)
    click.echo("The tables are at this version.")
    with engine.begin() as db:
        _key_ring(db, ring_path)
        _first_account(db, admin, password_file)
    click.echo(NEXT_STEPS.format(ring=ring_path))
    if settings.simulated:
        click.echo("No relay is set (OUTBOX_SMTP_URL): mail would be marked as sent and reach nobody.")


def _key_ring(db: sa.Connection, path: str) -> None:
    """A ring is only ever made where nothing was sealed before: a lost one must be restored, not replaced."""
    if Path(path).exists():
        ring = KeyRing.load(path)
        click.echo(f"The key ring {path} is there, with {plural(len(ring.keys), 'key')}.")
    elif needed := [kid for kid, use in key_reads.census(db).items() if use.messages]:
        raise Refused(
            f"Messages in this database are sealed with key {needed[0]}, but there is no key ring at {path}; "
            "restore it from the backup."
        )
    else:
        ring = KeyRing.generate()
        ring.write(path)
        click.echo(f"Made the key ring {path}.")
    key_store.register(db, ring.check_values, now=clock.now(db))


def _first_account(db: sa.Connection, admin: str | None, password_file: str | None) -> None:
    if accounts.any_account(db):
        click.echo("There is an account already; `outbox-admin users add` makes more.")
        return
    if admin is None and not sys.stdin.isatty():
        click.echo(
            "No account was made, since nobody can be asked; `outbox-admin users add NAME --role admin` makes one."
        )
        return
    name = admin or click.prompt("Name of the first admin")
    now = clock.now(db)
    user_store.add(db, name=name, role="admin", password_hash=ask_hash(password_file), now=now)
    audit.add(db, at=now, actor=actor(), action="user_added", target=f"user:{name.casefold()}")
    click.echo(f"{name.casefold()} may sign in as admin.")
