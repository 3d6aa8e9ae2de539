"""``check``: everything that could keep a process from starting, told at once instead of at three in the morning."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import click
import sqlalchemy as sa

from outbox_admin import assemble
from outbox_admin.cli.boundary import Misconfigured, database_sentence
from outbox_admin.cli.desk import existing
from outbox_admin.cli.keys import configured_ring
from outbox_admin.cli.output import json_option, print_json, stamp
from outbox_admin.cli.relays import complaint
from outbox_admin.config import Role, Settings
from outbox_admin.config.refusals import refusals
from outbox_admin.core.findings import SEALING_NOTICE
from outbox_admin.core.words import plural
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.db import migrations
from outbox_admin.db.reads import accounts, clock
from outbox_admin.db.reads import keys as key_reads
from outbox_admin.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Finding:
    """``level``: ok, warning or error."""

    level: str
    sentence: str


@click.command()
@click.option(
    "--deploy",
    is_flag=True,
    help="As for production, whatever OUTBOX_ENV says; also asks relay and accounts.",
)
@json_option
def check(deploy: bool, as_json: bool) -> None:
    """Check settings, key ring, database and (with --deploy) what production needs.

    Exits 0 when all is well, 1 with warnings, 78 where a process would not start.

    \b
    Examples:
      outbox-admin check
      outbox-admin check --deploy --json
    """
    found = list(_findings(deploy=deploy))
    if as_json:
        print_json({"findings": found})
    else:
        for finding in found:
            click.echo(f"{finding.level.ljust(8)} {finding.sentence}")
    levels = {finding.level for finding in found}
    sys.exit(Misconfigured.exit_code if "error" in levels else 1 if "warning" in levels else 0)


def _findings(*, deploy: bool) -> Iterator[Finding]:
    try:
        settings = Settings.from_env()
    except ConfigurationError as fault:
        yield from (Finding("error", line) for line in str(fault).splitlines())
        return
    refused = refusals(settings, *Role, production=deploy or settings.production)
    yield from (Finding("error", sentence) for sentence in refused)
    if not refused:
        yield Finding("ok", "The settings are complete and agree with each other.")
    ring = yield from _key_ring(settings)
    if settings.database_url is not None:
        yield from _database(settings, ring, deploy=deploy)
    if deploy:
        yield from _relays(settings)


def _relays(settings: Settings) -> Iterator[Finding]:
    """A relay that does not answer now keeps nothing from starting, so that it is a warning."""
    try:
        for route in assemble.routes(settings):
            fault = complaint(route)
            where = f"The {route.name} relay {route.host}:{route.port}"
            if fault is None:
                yield Finding("ok", f"{where} answers and is ready for mail.")
            else:
                yield Finding("warning", f"{where}: {fault}")
    except ConfigurationError as unusable:
        yield Finding("error", str(unusable))


def _key_ring(settings: Settings) -> Generator[Finding, None, KeyRing | None]:
    if settings.key_ring is None:
        return None
    try:
        ring = configured_ring(settings)
    except ConfigurationError as fault:
        yield Finding("error", f"{fault}.")
        return None
    until = ring.sealing_until
    if until is None:
        yield Finding(
            "error",
            "No key of the ring may seal, so nothing can be enqueued; run `outbox-admin keys generate`.",
        )
    else:
        yield Finding(
            "ok", f"The key ring has {plural(len(ring.keys), 'key')} and seals until {stamp(until)}."
        )
    return ring


def _database(settings: Settings, ring: KeyRing | None, *, deploy: bool) -> Iterator[Finding]:
    try:
        engine = existing(settings)
    except ConfigurationError as missing:
        yield Finding("error", str(missing))
        return
    try:
        standing = migrations.check(engine)
        if not standing.ok:
            yield Finding("error", f"The tables are not those of this version; {standing.cure}.")
            return
        yield Finding("ok", f"The database answers and has the tables of this version ({standing.current}).")
        with engine.connect() as db:
            yield from _keys(db, ring)
            if deploy:
                yield _accounts(db)
    except sa.exc.SQLAlchemyError as fault:
        yield Finding("error", database_sentence(fault))
    finally:
        engine.dispose()


def _accounts(db: sa.Connection) -> Finding:
    if accounts.any_account(db):
        return Finding("ok", "Somebody may sign in to the console.")
    return Finding(
        "error", "Nobody may sign in to the console; run `outbox-admin users add NAME --role admin`."
    )


def _keys(db: sa.Connection, ring: KeyRing | None) -> Iterator[Finding]:
    """The ring against what the database knows: another ring of the same ids must not seal or open here."""
    if ring is None:
        return
    if ring.sealing_until is not None and ring.sealing_until - clock.now(db) < SEALING_NOTICE:
        yield Finding("warning", "Within 14 days no key may seal any more; run `outbox-admin keys generate`.")
    census = key_reads.census(db)
    for kid, check_value in ring.check_values.items():
        known = census.get(kid)
        if known is not None and known.check_value not in (None, check_value):
            yield Finding(
                "error",
                f"Key {kid} of the ring is not the one that this database knows; restore the right ring.",
            )
    for kid, use in census.items():
        if use.messages and use.state != "lost" and kid not in ring.usable_ids:
            yield Finding(
                "warning",
                f"{plural(use.messages, 'message')} need {kid}, which this ring lacks; restore it, or declare it lost.",
            )
