"""``hold``, ``holds`` and ``unhold``: what is kept back, why, and until when. Audited."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import datetime
from uuid import UUID

import click
import sqlalchemy as sa

from outbox_admin.cli.boundary import Refused
from outbox_admin.cli.desk import actor, desk, open_engine, read_settings, reading
from outbox_admin.cli.moments import MOMENT, Given, ahead
from outbox_admin.cli.output import EMPTY, json_option, print_json, print_table, stamp
from outbox_admin.core.health import Count
from outbox_admin.core.hold import Hold, Scope, reason_of, value_of
from outbox_admin.core.words import plural
from outbox_admin.db.reads import clock
from outbox_admin.db.reads import holds as reads
from outbox_admin.db.store import audit
from outbox_admin.db.store import holds as store
from outbox_admin.db.store.rows import BOUND

_SCOPES = click.Choice([scope.value for scope in Scope])


@click.command()
@click.argument("scope", type=_SCOPES, metavar="everything|template|domain")
@click.argument("name", default="", metavar="[KEY|NAME]")
@click.option("--reason", required=True, help="Why, in a line, for whoever is on call next.")
@click.option(
    "--until",
    type=MOMENT,
    help="When it ends by itself: a time with its zone, or a span from now. Without it: by `unhold`.",
)
@json_option
def hold(scope: str, name: str, reason: str, until: Given | None, as_json: bool) -> None:
    """Keep messages back: everything, one template, or one recipient domain.

    They wait at no cost to their attempts and go out when the hold ends; what is being handed over is not called back.
    A domain means that domain alone; `.example.com` means all its subdomains. Expiry goes on meanwhile.

    \b
    Examples:
      outbox-admin hold everything --reason "relay moves" --until 2h
      outbox-admin hold template invoice.notice --reason "wrong total, bug 4711"
      outbox-admin hold domain example.com --reason "their server is down" --until 2026-12-01T08:00Z
    """
    wanted, why = Scope(scope), reason_of(reason)
    value = value_of(wanted, name)
    with desk() as at:
        end = _end(until, at.now)
        hold_id = store.place(
            at.db, scope=wanted, value=value, reason=why, who=actor(), until=end, now=at.now
        )
        (placed,) = (one for one in store.active(at.db, now=at.now) if one.id == hold_id)
        audit.add(at.db, at=at.now, actor=actor(), action="hold", target=placed.told)
    with reading() as after:  # the hold is in force; to count must not keep anybody waiting
        waiting = reads.waiting(after.db, placed)
    _tell_placed(placed, waiting, as_json)


@click.command()
@json_option
def holds(as_json: bool) -> None:
    """List the holds in force, and how many due messages each keeps back.

    Where several cover a message, one of them has it in its count.

    \b
    Example:
      outbox-admin holds --json
    """
    with reading() as at:
        found = reads.in_force(at.db, now=at.now)
    if as_json:
        print_json({"holds": [asdict(one.hold) | _counted("held", one.rows) for one in found]})
        return
    if not found:
        click.echo("Nothing is held.")
        return
    print_table(
        ("id", "holds", "held", "since", "until", "who", "reason"),
        [
            (
                one.hold.id,
                _what(one.hold),
                _number(one.rows),
                one.hold.created_at,
                stamp(one.hold.until),
                one.hold.who,
                one.hold.reason,
            )
            for one in found
        ],
    )


@click.command()
@click.argument("hold_id", type=click.UUID, metavar="ID")
@json_option
def unhold(hold_id: UUID, as_json: bool) -> None:
    """End a hold; its messages return to the queue, unless another hold covers them.

    Exits 1 where there is no such hold any more.

    \b
    Example:
      outbox-admin unhold 0190a1f2-7c3e-7d1a-9b42-0f6f5f8c2d11
    """
    engine = open_engine(read_settings())
    _lift(engine, hold_id)
    freed = _free(engine, quiet=as_json)
    if as_json:
        print_json({"hold": hold_id, "returned": freed})
    else:
        click.echo(f"The hold is lifted; {plural(freed, 'message')} left it for the queue or another hold.")


def _lift(engine: sa.Engine, hold_id: UUID) -> None:
    with engine.begin() as db:
        now = clock.now(db)
        known = {one.id: one.told for one in store.active(db, now=now)}
        if not store.lift(db, hold_id, now=now):
            raise Refused(f"There is no hold {hold_id}; it was lifted, or its time is over.")
        audit.add(db, at=now, actor=actor(), action="unhold", target=known.get(hold_id, str(hold_id)))


def _free(engine: sa.Engine, *, quiet: bool) -> int:
    """In steps, as the workers do it too; whatever is left when this is interrupted, they return."""
    total = 0
    with click.progressbar(length=0, label="Returning", show_pos=True, file=sys.stderr, hidden=quiet) as bar:
        while True:
            with engine.begin() as db:
                freed = store.free(db, now=clock.now(db))
            bar.update(freed)
            total += freed
            if freed < BOUND:
                return total


def _end(until: Given | None, now: datetime) -> datetime | None:
    if until is None:
        return None
    end = ahead(until, now)
    if end <= now:
        raise click.BadParameter(f"{stamp(end)} has passed; give a later time.", param_hint="--until")
    return end


def _tell_placed(placed: Hold, waiting: Count, as_json: bool) -> None:
    if as_json:
        print_json({"hold": asdict(placed), **_counted("waiting", waiting)})
        return
    end = "until it is lifted" if placed.until is None else f"until {stamp(placed.until)}"
    click.echo(f"Hold {placed.id} keeps {_what(placed)} back {end}.")
    number = f"{waiting.value:,}+ messages" if waiting.capped else plural(waiting.value, "message")
    verb = "waits" if number == "1 message" else "wait"
    click.echo(f"{number} {verb} under it; lift it with `outbox-admin unhold {placed.id}`.")


def _what(one: Hold) -> str:
    return one.scope if one.scope is Scope.EVERYTHING else f"{one.scope} {one.value or EMPTY}"


def _number(count: Count) -> str:
    return f"{count.value}+" if count.capped else str(count.value)


def _counted(name: str, count: Count) -> dict[str, object]:
    return {name: count.value, "capped": count.capped}
