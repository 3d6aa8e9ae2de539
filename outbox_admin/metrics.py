"""Figures for Prometheus, read from the database at each scrape, and the token that guards them.

Every process that is asked gives the same answer, so nothing has to be summed over processes. Shared by the console
and the worker's host; it must import neither.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from datetime import datetime

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from outbox_admin.core.breaker import Gate
from outbox_admin.core.health import FORGOTTEN_AFTER
from outbox_admin.db.reads import traffic
from outbox_admin.db.reads.health import Health, health
from outbox_admin.db.reads.routes import RouteState, routes
from outbox_admin.db.schema import outbox_worker

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def allowed(authorization: str | None, token: str | None) -> bool:
    """Whether the ``Authorization`` header carries the bearer token; without a token nobody may read."""
    if not token or not authorization:
        return False
    scheme, _, given = authorization.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


def exposition(db: sa.Connection, *, now: datetime) -> bytes:
    """The page in Prometheus' text format (:data:`CONTENT_TYPE`)."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(db, now))
    return generate_latest(registry)


class _Page(Collector):
    """One scrape. A gauge that has no value now (nothing waits, no worker ever reported) is left out."""

    def __init__(self, db: sa.Connection, now: datetime) -> None:
        self._db = db
        self._now = now

    def collect(self) -> Iterator[Metric]:
        found = health(self._db, now=self._now)
        yield _gauge("outbox_oldest_pending_seconds", "Age of the oldest open message.", found.oldest_pending)
        yield _gauge("outbox_oldest_due_seconds", "Age of the earliest passed due time.", found.oldest_due)
        yield _messages(found)
        yield _held(found)
        yield _workers(found)
        yield from _routes(routes(self._db, now=self._now))
        yield _gauge("outbox_holds", "Holds in force.", len(found.figures.holds))
        text = "1 while sending has stopped because the database is a copy."
        yield _gauge("outbox_copied_database", text, float(found.figures.copied_since is not None))
        yield _gauge(
            "outbox_health_level", "0 well, 1 warning, 2 critical: status' exit code.", found.level.rank
        )
        yield self._attempts()
        text = "Since a worker completed a cycle or recorded a result."
        yield _gauge("outbox_last_completed_cycle_age_seconds", text, self._cycle_age(), idle=None)

    def _attempts(self) -> Metric:
        family = CounterMetricFamily("outbox_attempts", "Tries, by what came of them.", labels=["outcome"])
        for outcome, number in sorted(traffic.totals(self._db).items()):
            family.add_metric([outcome], number)
        return family

    def _cycle_age(self) -> float | None:
        """Of the worker that moved last; those that stopped a day ago and more tell nothing."""
        column = outbox_worker.c.last_progress_at
        recent = sa.select(sa.func.max(column)).where(outbox_worker.c.beat_at > self._now - FORGOTTEN_AFTER)
        moment = self._db.execute(recent).scalar()
        return None if moment is None else max(0.0, (self._now - moment).total_seconds())


def _gauge(name: str, text: str, value: float | None, *, idle: float | None = 0.0) -> Metric:
    """``idle`` stands where there is no value; None leaves the sample out."""
    family = GaugeMetricFamily(name, text)
    shown = idle if value is None else value
    if shown is not None:
        family.add_metric([], shown)
    return family


def _messages(found: Health) -> Metric:
    text = "Messages by state; counting stops at 10000."
    family = GaugeMetricFamily("outbox_messages", text, labels=["state"])
    for state, count in found.counts.items():
        family.add_metric([state], count.value)
    return family


def _held(found: Health) -> Metric:
    """``alone`` is not held back: it is due."""
    text = "Waiting messages that are kept back, by reason; counting stops at 10000."
    family = GaugeMetricFamily("outbox_held_messages", text, labels=["reason"])
    missing = sum(key.waiting.value for key in found.figures.missing_keys)
    for reason, number in {
        **{name: count.value for name, count in found.figures.held.items()},
        "key": missing,
    }.items():
        family.add_metric([reason], number)
    return family


def _workers(found: Health) -> Metric:
    crew = found.figures.crew
    text = "Workers by what they say of themselves; copied and paused ones send nothing, stuck ones are counted twice."
    family = GaugeMetricFamily("outbox_workers", text, labels=["state"])
    for state in ("active", "draining", "copied", "paused", "lost", "stuck"):
        family.add_metric([state], getattr(crew, state))
    return family


def _routes(states: Sequence[RouteState]) -> Iterator[Metric]:
    """Only those that some worker uses. Of the three states of a breaker one is 1."""
    text = "The fleet's breaker: closed sends, open does not, half_open tries some messages."
    breakers = GaugeMetricFamily("outbox_route_breaker", text, labels=["route", "state"])
    alone = GaugeMetricFamily("outbox_route_paused_alone", "Workers that pause it alone.", labels=["route"])
    for state in states:
        if state.is_used:
            for gate in Gate:
                breakers.add_metric([state.name, gate.value], float(state.gate is gate))
            alone.add_metric([state.name], len(state.alone))
    yield breakers
    yield alone
