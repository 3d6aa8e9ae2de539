"""Stacked bars as server-made SVG: geometry here, shapes in the template, colours in the style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from outbox_admin.db.reads.traffic import Bucket

#: The drawing's own units; the page stretches it to its width.
WIDTH, HEIGHT = 720.0, 120.0

#: From the bottom up: key, label, outcomes that belong to it.
SERIES = (
    ("sent", "Sent", ("accepted",)),
    ("simulated", "Simulated", ("simulated",)),
    ("deferred", "Deferred", ("deferred", "channel_fault", "worker_lost")),
    ("rejected", "Rejected or failed", ("rejected", "undeliverable", "gave_up")),
    ("doubt", "Unknown", ("unknown",)),
    ("unsent", "Expired, replaced or suppressed", ("expired", "superseded", "suppressed")),
)


@dataclass(frozen=True, slots=True)
class Part:
    series: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    width: float
    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """``table`` has one row per bucket that is not empty: start, then a count per series in ``legend``."""

    title: str
    description: str
    bars: tuple[Bar, ...]
    top: int
    ticks: tuple[str, ...]
    legend: tuple[tuple[str, str, int], ...]
    table: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def empty(self) -> bool:
        return not self.table


def outcomes_chart(buckets: Sequence[Bucket], *, step: timedelta) -> Chart:
    counted = [tuple(_count(bucket, outcomes) for _, _, outcomes in SERIES) for bucket in buckets]
    totals = [sum(column[index] for column in counted) for index in range(len(SERIES))]
    shown = [index for index, total in enumerate(totals) if total or index == 0]
    top = _round_up(max((sum(column) for column in counted), default=0))
    unit = "minute" if step < timedelta(hours=1) else _hours(step)
    bars = tuple(
        _bar(number, bucket, column, len(buckets), top, step)
        for number, (bucket, column) in enumerate(zip(buckets, counted, strict=True))
        if sum(column)
    )
    return Chart(
        title=f"Outcomes per {unit}",
        description=_description(counted, totals, unit),
        bars=bars,
        top=top,
        ticks=_ticks(buckets, step),
        legend=tuple((SERIES[index][0], SERIES[index][1], totals[index]) for index in shown),
        table=tuple(
            (_label(bucket.start, step), tuple(column[index] for index in shown))
            for bucket, column in zip(reversed(buckets), reversed(counted), strict=True)
            if sum(column)
        ),
    )


def _count(bucket: Bucket, outcomes: Sequence[str]) -> int:
    return sum(bucket.counts.get(outcome, 0) for outcome in outcomes)


def _bar(number: int, bucket: Bucket, column: Sequence[int], of: int, top: int, step: timedelta) -> Bar:
    slot = WIDTH / of
    parts, base = [], HEIGHT
    for (series, _, _), count in zip(SERIES, column, strict=True):
        if count:
            height = count / top * HEIGHT
            base -= height
            parts.append(Part(series, round(base, 2), round(height, 2)))
    words = ", ".join(
        f"{count:,} {label.lower()}" for (_, label, _), count in zip(SERIES, column, strict=True) if count
    )
    title = f"{_label(bucket.start, step)}: {words}"
    return Bar(round(number * slot + slot * 0.1, 2), round(slot * 0.8, 2), title, tuple(parts))


def _description(counted: Sequence[Sequence[int]], totals: Sequence[int], unit: str) -> str:
    if not any(totals):
        return "Nothing was sent in this time."
    sums = [sum(column) for column in counted]
    latest, before = sums[-1], sums[-2] if len(sums) > 1 else 0
    trend = "rising" if latest > before else "falling" if latest < before else "level"
    return f"Peak {max(sums):,} a {unit}, latest {latest:,}, {trend}; {sum(totals):,} in all."


def _ticks(buckets: Sequence[Bucket], step: timedelta) -> tuple[str, ...]:
    """Five times along the axis."""
    last = len(buckets) - 1
    return tuple(_label(buckets[last * part // 4].start, step) for part in range(5)) if buckets else ()


def _label(start: datetime, step: timedelta) -> str:
    return start.strftime("%H:%M" if step < timedelta(hours=4) else "%d %b %H:%M")


def _hours(step: timedelta) -> str:
    hours = int(step / timedelta(hours=1))
    return "hour" if hours == 1 else f"{hours} hours"


def _round_up(value: int) -> int:
    """The next round number, at least 5; above 10 with two leading digits at most."""
    if value <= 10:
        return 5 if value <= 5 else 10
    unit = int("1".ljust(len(str(value)) - 1, "0"))
    return next(
        unit * factor for factor in (10, 15, 20, 25, 30, 40, 50, 60, 80, 100) if unit * factor >= value
    )
