"""``status``: the same judgement as the console's overview, for scripts and monitoring."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import datetime

import click

from outbox_admin.cli.desk import reading
from outbox_admin.cli.output import json_option, print_facts, print_json
from outbox_admin.core.health import MissingKey
from outbox_admin.core.words import span
from outbox_admin.db.reads.health import Health, health
from outbox_admin.db.reads.routes import RouteState, routes


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Tell whether mail goes out, and what to do if not.

    Exits 0 when healthy, 1 with a warning, 2 when critical (or when the database cannot be asked).

    \b
    Example:
      outbox-admin status --json || page-somebody
    """
    with reading() as at:
        found = health(at.db, now=at.now, grace=at.settings.unknown_key_grace)
        states = routes(at.db, now=at.now)
    if as_json:
        print_json(_data(found, states))
    else:
        _print(found)
    sys.exit(found.level.rank)


def _print(found: Health) -> None:
    click.echo(f"{found.level.value}")
    for finding in found.findings:
        told = [finding.sentence, finding.cure, f"({finding.command})" if finding.command else ""]
        click.echo(f"  {finding.level.value.ljust(8)}  {' '.join(part for part in told if part)}")
    if found.figures.simulating:
        click.echo("  No relay is configured: mail is marked as sent (simulated) and reaches nobody.")
    click.echo()
    print_facts({state.value: str(count) for state, count in found.counts.items()})


def _data(found: Health, routes: list[RouteState]) -> dict[str, object]:
    figures = found.figures
    return {
        "level": found.level,
        "oldest_pending_seconds": figures.oldest_pending,
        "oldest_due_seconds": figures.oldest_due,
        "states": {state.value: count.value for state, count in found.counts.items()},
        "capped": [state.value for state, count in found.counts.items() if count.capped],
        "rejected_last_hour": figures.rejected_last_hour.value,
        "held": {reason: count.value for reason, count in figures.held.items()},
        "missing_keys": [_missing(key, figures.now) for key in figures.missing_keys],
        "workers": figures.crew,
        "routes": routes,
        "holds": [asdict(held.hold) | {"messages": held.rows.value} for held in figures.holds],
        "copied_since": figures.copied_since,
        "simulated": figures.simulating,
        "redirected": bool(figures.redirected_to),
        "findings": found.findings,
    }


def _missing(key: MissingKey, now: datetime) -> dict[str, object]:
    left = (key.rejects_at - now).total_seconds()
    rejected_in = None if key.revoked else span(left)
    told = {"key": key.kid, "waiting": key.waiting.value, "since": key.since}
    return told | {"revoked": key.revoked, "rejected_in": rejected_in}
