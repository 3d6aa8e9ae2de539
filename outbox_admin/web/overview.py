"""Is mail going out, since when not, and why: one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from flask import Blueprint, Response, render_template, request

from outbox_admin.core import catalogue
from outbox_admin.core.health import START_COMMANDS, Finding, Level
from outbox_admin.db.reads import overview as reads
from outbox_admin.db.reads import traffic
from outbox_admin.db.reads.crew import heartbeats, is_alive, is_stuck
from outbox_admin.db.reads.deployment import COPIED_STATE, PAUSED_STATE
from outbox_admin.db.reads.health import health
from outbox_admin.db.reads.routes import routes
from outbox_admin.web.charts import Chart, outcomes_chart
from outbox_admin.web.guard import access
from outbox_admin.web.present import Moment, moment
from outbox_admin.web.presses import FindingView, shown
from outbox_admin.web.regions import answer, region
from outbox_admin.web.routes import RouteView, views
from outbox_admin.web.tiles import Tile, tiles
from outbox_admin.web.visit import Role, Visit, visit

pages = Blueprint("overview", __name__)

#: How far back, one bar per.
RANGES = {
    "1h": (timedelta(hours=1), timedelta(minutes=1)),
    "24h": (timedelta(hours=24), timedelta(hours=1)),
    "7d": (timedelta(days=7), timedelta(hours=4)),
}


@dataclass(frozen=True, slots=True)
class WorkerView:
    name: str
    kind: str
    version: str
    state: str
    tone: str
    lanes: int
    holding: int
    beat: Moment
    accepted: int
    put_off: int
    faults: int


@dataclass(frozen=True, slots=True)
class CauseLine:
    words: str
    count: int
    last: Moment


@dataclass(frozen=True, slots=True)
class Overview:
    """``level`` is what a screen reader hears when it changes."""

    level: Level
    summary: str
    findings: tuple[FindingView, ...]
    tiles: tuple[Tile, ...]
    chart: Chart
    causes: tuple[CauseLine, ...]
    routes: tuple[RouteView, ...]
    workers: tuple[WorkerView, ...]
    commands: tuple[str, ...]
    range: str


@pages.get("/")
@access(Role.VIEWER)
def show() -> str:
    return render_template("outbox/overview.html", live=region("overview.html", **_values()))


@pages.get("/_f/overview")
@access(Role.VIEWER)
def fragment_show() -> Response:
    return answer("overview.html", **_values())


def _values() -> dict[str, Any]:
    asked = request.args.get("range", "")
    chosen = asked if asked in RANGES else "1h"
    return {"view": _read(visit(), chosen), "ranges": tuple(RANGES)}


def _read(asking: Visit, chosen: str) -> Overview:
    db, now, settings = asking.db, asking.now, asking.console.settings
    length, step = RANGES[chosen]
    state = health(db, now=now, grace=settings.unknown_key_grace)
    workers = heartbeats(db, now=now)
    buckets = traffic.outcomes(db, since=now - length, until=now, step=step)
    causes = traffic.top_causes(db, since=now - length)
    hour = traffic.totals(db, since=now - timedelta(hours=1))
    return Overview(
        level=state.level,
        summary=_summary(state.level, state.findings),
        findings=tuple(shown(asking, finding) for finding in state.findings),
        tiles=tiles(reads.tiles(db, state, now=now), hour, state.oldest_due),
        chart=outcomes_chart(buckets, step=step),
        causes=tuple(
            CauseLine(catalogue.words(one.cause), one.count, moment(one.last, now=now)) for one in causes
        ),
        routes=views(routes(db, now=now), now=now),
        workers=tuple(_worker(worker, asking) for worker in workers),
        commands=START_COMMANDS if state.figures.crew.alive == 0 else (),
        range=chosen,
    )


def _summary(level: Level, findings: Sequence[Finding]) -> str:
    wrong = sum(finding.level is not Level.OK for finding in findings)
    if level is Level.OK:
        return "All is well."
    return f"{wrong} {'thing needs' if wrong == 1 else 'things need'} attention."


_TONES = {"active": "sent", COPIED_STATE: "failed", PAUSED_STATE: "retry"}


def _worker(worker: sa.Row[Any], asking: Visit) -> WorkerView:
    now = asking.now
    if not is_alive(worker, now=now):
        state, tone = "lost", "failed"
    elif is_stuck(worker, now=now):
        state, tone = "stuck", "retry"
    else:
        state, tone = worker.state, _TONES.get(worker.state, "pending")
    return WorkerView(
        name=f"{worker.host}:{worker.pid}",
        kind=worker.kind,
        version=worker.version,
        state=state,
        tone=tone,
        lanes=worker.lanes,
        holding=worker.holding,
        beat=moment(worker.beat_at, now=now),
        accepted=worker.accepted,
        put_off=worker.deferred,
        faults=worker.faults,
    )
