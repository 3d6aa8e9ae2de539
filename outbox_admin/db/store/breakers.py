"""How a breaker stands in the row of its route, and back. Pure values."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from outbox_admin.core import breaker as rules
from outbox_admin.core.breaker import Breaker, Gate, Trial
from outbox_admin.core.catalogue import restore
from outbox_admin.db.store.rows import of_cause


def stored(breaker: Breaker) -> dict[str, Any]:
    """``opened_at`` stays after the end: storms are counted from there."""
    started = {"opened_at": _moment(breaker.opened_at)} if breaker.gate is Gate.OPEN else {}
    trials = [{"by": trial.by, "until": _moment(trial.until).isoformat()} for trial in breaker.trials]
    return {
        "breaker": breaker.gate.value,
        "next_probe_at": _moment(breaker.next_probe_at) if breaker.gate is Gate.OPEN else None,
        "probing_by": breaker.probing_by,
        "probing_until": None if breaker.probing_until is None else _moment(breaker.probing_until),
        "openings": breaker.openings,
        "acceptances": breaker.acceptances,
        "allowance": breaker.allowance or 0,
        "needs_trials": breaker.needs_trials,
        "trials": trials or None,
        **started,
        **of_cause(breaker.cause),
    }


def loaded(row: Any) -> Breaker:
    """Of a row of ``outbox_route``."""
    gate = rules.gate_of(row.breaker)
    return Breaker(
        gate=gate,
        cause=restore(
            row.cause_phase,
            row.cause_kind,
            row.cause_code,
            row.cause_enhanced,
            hint=row.cause_hint,
            ref=row.cause_ref,
        ),
        opened_at=second(row.opened_at),
        next_probe_at=second(row.next_probe_at),
        probing_by=row.probing_by,
        probing_until=None if row.probing_until is None else second(row.probing_until),
        openings=row.openings,
        acceptances=row.acceptances,
        allowance=0 if gate is Gate.OPEN else row.allowance or None,
        needs_trials=row.needs_trials,
        trials=tuple(Trial(one["by"], _iso(one["until"])) for one in row.trials or ()),
    )


def second(moment: datetime | None) -> float:
    """As core/breaker counts; 0 where there is none."""
    return 0.0 if moment is None else moment.timestamp()


def _iso(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _moment(second: float) -> datetime:
    return datetime.fromtimestamp(second, UTC)
