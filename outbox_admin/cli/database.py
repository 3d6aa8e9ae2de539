"""``db``: the tables. Upgrades are run by hand or by a deployment, never by a process that starts."""

from __future__ import annotations

import click

from outbox_admin.cli.boundary import Misconfigured
from outbox_admin.cli.desk import engine_of_command, existing, read_settings
from outbox_admin.cli.output import json_option, print_facts, print_json
from outbox_admin.db import migrations


@click.group()
def db() -> None:
    """The outbox's tables.

    \b
    Example:
      outbox-admin db upgrade
    """


@db.command()
def upgrade() -> None:
    """Bring the tables to this version; back up database and key ring first.

    Producers and workers may go on meanwhile. Each migration is recorded by itself: an upgrade that was interrupted, or
    gave up waiting for a lock, is run again and goes on where it stopped. Connect directly to PostgreSQL rather than
    through a pooler, whose own timeouts would cut off the building of an index.

    \b
    Example:
      outbox-admin db upgrade
    """
    engine = engine_of_command(read_settings())
    before = migrations.check(engine).current
    after = migrations.upgrade(engine, click.echo).current
    click.echo(f"The tables are at version {after}" + (" already." if before == after else "."))


@db.command()
@click.option(
    "--dialect", type=click.Choice(["postgresql", "sqlite"]), default="postgresql", show_default=True
)
@click.option("--since", metavar="VERSION", help="The version that is there, as `db check` tells; else all.")
def sql(dialect: str, since: str | None) -> None:
    """Print the statements of `db upgrade`, for people who run them by hand.

    Each migration begins and commits its own transaction, and indexes of big tables are built by CREATE INDEX
    CONCURRENTLY outside of one: never run this with `psql --single-transaction`. Let it stop at the first error, and go
    on with --since and the version that was reached.

    \b
    Examples:
      outbox-admin db sql | psql --set ON_ERROR_STOP=1 shop
      outbox-admin db sql --since 0003 | psql --set ON_ERROR_STOP=1 shop
    """
    click.echo(migrations.sql(dialect, since))


@db.command()
@json_option
def check(as_json: bool) -> None:
    """Tell whether the database answers and has the tables of this version; exits 78 where not.

    \b
    Example:
      outbox-admin db check
    """
    engine = existing(read_settings())
    standing = migrations.check(engine)
    facts = {"database": engine.dialect.name, "version": standing.current, "expected": standing.expected}
    if as_json:
        print_json(facts)
    else:
        print_facts(facts)
    if not standing.ok:
        raise Misconfigured(f"The tables are not those of this version; {standing.cure}.")
