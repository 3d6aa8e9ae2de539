"""``keys``: the key ring's file, and what the database knows of its keys. Never prints key material."""

from __future__ import annotations

from pathlib import Path

import click

from outbox_admin.cli.boundary import Misconfigured, Refused
from outbox_admin.cli.desk import actor, desk, read_settings, reading
from outbox_admin.cli.output import json_option, print_json, print_table
from outbox_admin.config import Settings
from outbox_admin.core.words import plural
from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.crypto.ringfile import path_of
from outbox_admin.db.reads import keys as key_reads
from outbox_admin.db.reads.keys import KeyUse
from outbox_admin.db.store import keys as key_store


@click.group()
def keys() -> None:
    """The keys that seal and open what waits in the outbox.

    \b
    Example:
      outbox-admin keys list
    """


@keys.command()
@click.option("--out", metavar="FILE", help="Where to write; OUTBOX_KEY_RING when not given.")
def generate(out: str | None) -> None:
    """Make a key ring, or add a key to the one that is there.

    A key seals for 90 days, so add one before they are over (a cron entry each month is enough). A new key of an
    existing ring seals after 48 hours, when every worker has read it. Back up the file together with the database, in
    another place.

    \b
    Examples:
      outbox-admin keys generate --out /etc/outbox/keyring.json
      outbox-admin keys generate
    """
    path = path_of(out or ring_source(Settings.from_env()))
    if Path(path).exists():
        ring = KeyRing.load(path).extended()
        ring.write(path, replace=True)
        click.echo(
            f"Added key {ring.keys[-1].kid} to {path}; it seals from {ring.keys[-1].activates:%Y-%m-%d %H:%M} UTC."
        )
        return
    ring = KeyRing.generate()
    ring.write(path)
    click.echo(f"Made {path} with key {ring.newest_id}. Back it up now, apart from the database.")


@keys.command("list")
@json_option
def list_keys(as_json: bool) -> None:
    """List the keys of ring and database, and how many messages need each.

    \b
    Example:
      outbox-admin keys list --json
    """
    settings = read_settings()
    ring = configured_ring(settings)
    with reading() as at:
        known = key_reads.census(at.db)
    rows = _census(ring, known)
    if as_json:
        print_json({"ring": ring.ring_id, "serial": ring.serial, "keys": rows})
    else:
        print_table(
            ("key", "in ring", "created", "expires", "in database", "messages"),
            [list(row.values()) for row in rows],
        )


def _census(ring: KeyRing, known: dict[str, KeyUse]) -> list[dict[str, object]]:
    """Every key of ring or database."""
    held, unused = {key.kid: key for key in ring.keys}, KeyUse("unused", None, 0)
    return [
        {
            "key": kid,
            "in_ring": held[kid].state.value if kid in held else "missing",
            "created": held[kid].created if kid in held else None,
            "expires": held[kid].expires if kid in held else None,
            "in_database": known.get(kid, unused).state,
            "messages": known.get(kid, unused).messages,
        }
        for kid in sorted(held.keys() | known.keys())
    ]


@keys.command("declare-lost")
@click.argument("kid")
@click.option("--yes", is_flag=True, help="Do not ask.")
def declare_lost(kid: str, yes: bool) -> None:
    """Say that a key will never come back: the workers reject what waits for it. There is no way back.

    \b
    Example:
      outbox-admin keys declare-lost 0102030405060708
    """
    with reading() as at:
        found = key_reads.census(at.db).get(kid)
    if found is None:
        raise Refused(f"The database knows no key {kid}.")
    if not yes:
        click.confirm(f"{plural(found.messages, 'message')} with {kid} will be rejected. Go on?", abort=True)
    with desk() as at:
        number = key_store.declare_lost(at.db, kid, now=at.now, who=actor())
    click.echo(
        f"Key {kid} is declared lost; with their next cycle the workers reject {plural(number, 'message')}."
    )


def configured_ring(settings: Settings) -> KeyRing:
    """The key ring as it is now, wherever it is kept. Raises ConfigurationError."""
    source = ring_source(settings)
    if settings.key_ring_text is not None:
        return KeyRing.from_text(settings.key_ring_text, origin=source)
    return KeyRing.load(source)


def ring_source(settings: Settings) -> str:
    """The configured key ring file, or ``env:NAME``."""
    if settings.key_ring is None:
        raise Misconfigured("OUTBOX_KEY_RING is not set; name the key ring's file.")
    return settings.key_ring
