"""``routes`` and ``probe``: which relay stands still and why, and having it tried at once. Audited."""

from __future__ import annotations

import click

from outbox_admin.cli.boundary import Refused
from outbox_admin.cli.desk import actor, desk, reading
from outbox_admin.cli.output import json_option, print_json, print_table
from outbox_admin.core import catalogue
from outbox_admin.core.breaker import Gate
from outbox_admin.db.reads import routes as reads
from outbox_admin.db.reads.routes import Lone, RouteState
from outbox_admin.db.store import audit
from outbox_admin.db.store import routes as store

_COLUMNS = ("route", "state", "since", "next try", "accepted", "why")
_STATES = {Gate.CLOSED: "open to mail", Gate.OPEN: "paused", Gate.HALF_OPEN: "on trial"}


@click.command()
@json_option
def routes(as_json: bool) -> None:
    """List the routes: whether mail flows, since when and why not, and when it is tried next.

    `paused alone` is a worker that meets a fault which the others do not have: look at that machine.

    \b
    Example:
      outbox-admin routes --json
    """
    with reading() as at:
        found = reads.routes(at.db, now=at.now)
    if as_json:
        print_json({"routes": found})
        return
    if not found:
        click.echo("No worker has used a route yet.")
        return
    print_table(_COLUMNS, [line for state in found for line in _lines(state)])


@click.command()
@click.argument("route", default="primary")
@json_option
def probe(route: str, as_json: bool) -> None:
    """Have a paused route tried with the next cycle instead of waiting: its fault is cured.

    A worker connects up to the login; no message is risked. Where the route is open to mail and single workers have
    paused it for themselves, each of these tries it. Exits 1 where nobody pauses.

    \b
    Examples:
      outbox-admin probe
      outbox-admin probe secondary
    """
    with desk() as at:
        done = store.hasten(at.db, route, now=at.now)
        result = "done" if done else "refused"
        audit.add(at.db, at=at.now, actor=actor(), action="probe", target=route[:200], result=result)
    if not done:
        raise Refused(
            f"Route {route} is not paused, nor does a worker pause it alone; see `outbox-admin routes`."
        )
    if as_json:
        print_json({"route": route, "probe": "due"})
    else:
        click.echo(f"Route {route} is tried with the next cycle.")


def _lines(state: RouteState) -> list[tuple[object, ...]]:
    name = _STATES[state.gate] if state.is_used else "not in use"
    why = catalogue.words(state.cause) if state.cause else ""
    shared = (state.name, name, state.since, state.next_probe_at, state.last_accepted_at, why)
    return [shared, *(_alone(state.name, lone) for lone in state.alone)]


def _alone(route: str, lone: Lone) -> tuple[object, ...]:
    why = catalogue.words(lone.cause) if lone.cause else ""
    return (route, f"paused alone: {lone.worker}", lone.since, lone.next_probe_at, None, why)
