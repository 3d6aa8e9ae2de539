"""A route's circuit breaker as a value and the transitions of it. Pure: seconds and dice come in, nothing is stored.

::

    closed --fault, storm--> open --good probe--> closed, ramping up     (the fault lay before MAIL: a probe proves it)
      ^                       ^ |
      |                       | +--good probe--> half-open               (the fault lay in the transaction, or a storm)
      |                       +-fault, five refusals-|
      +-----------------enough acceptances-----------+

While half-open no refusal is final, and five refused messages in a row, whatever each was told, open it anew with a
doubled wait: their attempts are given back (core/streak), since a relay that refuses everybody would else use up all
attempts of all messages, one trial after the other.

``now`` is in seconds of one clock: a process's monotonic one for a breaker of its own, the database's for the one that
all workers share. The latter may be set: a moment further away than any wait can last counts as passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from outbox_admin.core.backoff import Backoff
from outbox_admin.core.cause import Cause, Phase
from outbox_admin.core.lifecycle import ChannelFault, Deferred, Outcome, Rejected

#: 10 s doubling to 5 min, then up to a quarter more.
WAITS = Backoff(base=10.0, cap=300.0, jitter=0.25)
LONGEST_WAIT = WAITS.cap * (1.0 + WAITS.jitter)
#: Seconds that one probe or trial may take before its worker counts as gone: a whole hand-over and a little.
PATIENCE = 210.0
#: With so many messages allowed at a time, or accepted since the last opening, nothing is held back any more.
FULL = 20

_PROVEN_BY_PROBE = frozenset({Phase.CONNECT, Phase.GREETING, Phase.EHLO, Phase.TLS, Phase.AUTH})


class Gate(StrEnum):
    """Whether a route takes messages."""

    CLOSED = "closed"  #: the circuit is closed: messages flow, ramping up after an outage
    OPEN = "open"  #: nothing is sent; probes only
    HALF_OPEN = "half_open"  #: trials: few messages at a time, and no refusal is final


def gate_of(word: str) -> Gate:
    """As it is stored. A word that only a later version knows means a pause: a probe will tell."""
    return Gate(word) if word in set(Gate) else Gate.OPEN


@dataclass(frozen=True, slots=True)
class Trial:
    """A permit for one message while half-open, given to a lane until it is returned or lapses.

    A lane sends its messages one after the other, so its permits lapse one after the other too.
    """

    by: str
    until: float


@dataclass(frozen=True, slots=True)
class Breaker:
    """``allowance``: messages that may be in hand at once, None without limit. ``openings`` in a row give the wait.

    ``probing_until``: until then ``probing_by`` is probing. ``acceptances`` since the last opening. ``needs_trials``:
    the fault was one that a probe does not meet. ``opened_at`` is the beginning of the outage, not its last probe.
    """

    gate: Gate = Gate.CLOSED
    cause: Cause | None = None
    opened_at: float = 0.0
    next_probe_at: float = 0.0
    probing_by: str | None = None
    probing_until: float | None = None
    openings: int = 0
    acceptances: int = 0
    allowance: int | None = None
    needs_trials: bool = False
    trials: tuple[Trial, ...] = ()


def opened(breaker: Breaker, cause: Cause, *, now: float, roll: float) -> Breaker:
    """After a fault. Of several lanes that meet the same outage only the first opens: the wait doubles once."""
    if breaker.gate is Gate.OPEN:
        return breaker
    return _open(breaker, cause, now=now, roll=roll)


def probe_due(breaker: Breaker, *, now: float, patience: float = PATIENCE) -> bool:
    """Whether a probe should be made now, by whoever first stores :func:`probing`."""
    return (
        breaker.gate is Gate.OPEN
        and _is_past(breaker.next_probe_at, now, LONGEST_WAIT)
        and _is_past(breaker.probing_until, now, patience)
    )


def probing(breaker: Breaker, *, now: float, by: str = "", patience: float = PATIENCE) -> Breaker:
    """One probe is under way; the others keep away until it has ended, or has taken too long."""
    if breaker.gate is not Gate.OPEN:
        return breaker
    return replace(breaker, probing_by=by, probing_until=now + patience)


def hastened(breaker: Breaker, *, now: float) -> Breaker:
    """The next probe need not be waited for: somebody believes that the fault is cured."""
    return replace(breaker, next_probe_at=min(breaker.next_probe_at, now))


def probe_failed(breaker: Breaker, cause: Cause, *, now: float, roll: float) -> Breaker:
    """The next wait is twice as long; the cause shown is the newest."""
    return _open(breaker, cause, now=now, roll=roll) if breaker.gate is Gate.OPEN else breaker


def closed(breaker: Breaker) -> Breaker:
    """After a good probe: closed, starting with one message, or half-open where a probe proves too little."""
    if breaker.gate is not Gate.OPEN:
        return breaker
    gate = Gate.HALF_OPEN if breaker.needs_trials else Gate.CLOSED
    return replace(breaker, gate=gate, probing_by=None, probing_until=None, acceptances=0, allowance=1)


def accepted(breaker: Breaker) -> Breaker:
    """After an acceptance: twice as many messages at a time, in the end all. A late one while open proves nothing."""
    if breaker.gate is Gate.OPEN or breaker.openings == 0:
        return breaker
    counted = replace(breaker, acceptances=breaker.acceptances + 1)
    if counted.allowance is not None and counted.allowance * 2 <= FULL:
        return replace(counted, allowance=counted.allowance * 2)
    # After trials the wait stays doubled for a while: a relay that takes five and refuses the sixth is not cured.
    if counted.needs_trials and counted.acceptances < FULL:
        return replace(counted, gate=Gate.CLOSED, allowance=None)
    return Breaker()


def room(breaker: Breaker, *, wanted: int, in_hand: int) -> int:
    """How many of ``wanted`` messages may be taken up now beside those ``in_hand`` on this route."""
    if breaker.gate is Gate.OPEN:
        return 0
    if breaker.allowance is None:
        return wanted
    return max(0, min(wanted, breaker.allowance - in_hand))


def on_trial(
    breaker: Breaker, *, by: str, wanted: int, now: float, patience: float = PATIENCE
) -> tuple[Breaker, int]:
    """Gives ``by`` permits for at most ``wanted`` messages while half-open; how many it got."""
    if breaker.gate is not Gate.HALF_OPEN:
        return breaker, 0
    held = trials_now(breaker, now=now, patience=patience)
    number = room(breaker, wanted=wanted, in_hand=len(held))
    taken = (Trial(by, now + patience * turn) for turn in range(1, number + 1))
    return replace(breaker, trials=(*held, *taken)), number


def trials_now(breaker: Breaker, *, now: float, patience: float = PATIENCE) -> tuple[Trial, ...]:
    """The permits that have neither been returned nor lapsed."""
    turns, kept = Counter[str](), []
    for trial in breaker.trials:
        turns[trial.by] += 1
        if not _is_past(trial.until, now, patience * turns[trial.by]):
            kept.append(trial)
    return tuple(kept)


def returned(breaker: Breaker, by: Collection[str]) -> Breaker:
    """What these hold, permits and probe, is free again: they have ended, or are lost."""
    kept = tuple(trial for trial in breaker.trials if trial.by not in by)
    if breaker.probing_by in by:
        return replace(breaker, trials=kept, probing_by=None, probing_until=None)
    return replace(breaker, trials=kept)


def tempered(breaker: Breaker, outcome: Outcome) -> Outcome:
    """While half-open a refusal only defers: a trial never wipes a message."""
    if breaker.gate is Gate.HALF_OPEN and isinstance(outcome, Rejected) and outcome.cause.code is not None:
        return Deferred(outcome.cause, outcome.raw)
    return outcome


def attributed(
    outcome: Outcome, *, first_fault_at: datetime | None, last_accepted_at: datetime | None
) -> Outcome:
    """A fault from MAIL on is the message's own where others were accepted since it first met one (E21)."""
    if not isinstance(outcome, ChannelFault) or proven_by_probe(outcome.cause):
        return outcome
    if first_fault_at is None or last_accepted_at is None or last_accepted_at <= first_fault_at:
        return outcome
    return Deferred(outcome.cause, outcome.raw)


def proven_by_probe(cause: Cause) -> bool:
    """Whether a connection up to the login meets this fault again, so that no message need be risked."""
    return cause.phase in _PROVEN_BY_PROBE


def _is_past(moment: float | None, now: float, longest: float) -> bool:
    """Also when it lies far further ahead than it can have been set: the clock was put back since.

    Twice as far, since whoever set it may have a clock that is a little ahead.
    """
    return moment is None or not now < moment <= now + 2 * longest


def _open(breaker: Breaker, cause: Cause, *, now: float, roll: float) -> Breaker:
    openings = breaker.openings + 1
    again = breaker.gate is not Gate.CLOSED  # a failed trial does not end the outage
    return Breaker(
        gate=Gate.OPEN,
        cause=cause,
        opened_at=breaker.opened_at if again else now,
        next_probe_at=now + WAITS.delay(openings, roll=roll),
        openings=openings,
        allowance=0,
        needs_trials=not proven_by_probe(cause) or (again and breaker.needs_trials),
        trials=breaker.trials,
    )
