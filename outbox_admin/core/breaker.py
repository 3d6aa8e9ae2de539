"""A route's circuit breaker as a value and the transitions of it. Pure: seconds and dice come in, nothing is stored.

::

    closed --fault, storm--> open --good probe--> closed, ramping up     (the fault lay before MAIL: a probe proves it)
      ^                       ^ |
      |                       | +--good probe--> half-open               (the fault lay in the transaction, or a storm)
      |                       +-------fault----------|
      +-----------------enough acceptances-----------+

``now`` is in seconds of any clock that only grows; a process uses its monotonic clock. Who holds the value, a process
or a table, is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from outbox_admin.core.backoff import Backoff
from outbox_admin.core.cause import Cause, Phase
from outbox_admin.core.lifecycle import Deferred, Outcome, Rejected

#: 10 s doubling to 5 min, then up to a quarter more.
WAITS = Backoff(base=10.0, cap=300.0, jitter=0.25)
#: Seconds that one probe may take before another may be made: connecting, greeting, EHLO, TLS, login.
PROBE_LIMIT = 180.0
#: With so many messages allowed at a time, or accepted since the last opening, nothing is held back any more.
FULL = 20

_PROVEN_BY_PROBE = frozenset({Phase.CONNECT, Phase.GREETING, Phase.EHLO, Phase.TLS, Phase.AUTH})


class Gate(StrEnum):
    """Whether a route takes messages."""

    CLOSED = "closed"  #: the circuit is closed: messages flow, ramping up after an outage
    OPEN = "open"  #: nothing is sent; probes only
    HALF_OPEN = "half_open"  #: trials: few messages at a time, and no refusal is final


@dataclass(frozen=True, slots=True)
class Breaker:
    """``allowance``: messages that may be in hand at once, None without limit. ``openings`` in a row give the wait.

    ``probing_until``: until then somebody else is probing. ``acceptances`` since the last opening. ``needs_trials``:
    the fault was one that a probe does not meet. ``opened_at`` is the beginning of the outage, not its last probe.
    """

    gate: Gate = Gate.CLOSED
    cause: Cause | None = None
    opened_at: float = 0.0
    next_probe_at: float = 0.0
    probing_until: float | None = None
    openings: int = 0
    acceptances: int = 0
    allowance: int | None = None
    needs_trials: bool = False


def opened(breaker: Breaker, cause: Cause, *, now: float, roll: float) -> Breaker:
    """After a fault. Of several lanes that meet the same outage only the first opens: the wait doubles once."""
    if breaker.gate is Gate.OPEN:
        return breaker
    return _open(breaker, cause, now=now, roll=roll)


def probe_due(breaker: Breaker, *, now: float) -> bool:
    """Whether a probe should be made now, by whoever first stores :func:`probing`."""
    free = breaker.probing_until is None or now >= breaker.probing_until
    return breaker.gate is Gate.OPEN and now >= breaker.next_probe_at and free


def probing(breaker: Breaker, *, now: float) -> Breaker:
    """One probe is under way; the others keep away until it has ended, or has taken too long."""
    return replace(breaker, probing_until=now + PROBE_LIMIT) if breaker.gate is Gate.OPEN else breaker


def probe_failed(breaker: Breaker, cause: Cause, *, now: float, roll: float) -> Breaker:
    """The next wait is twice as long; the cause shown is the newest."""
    return _open(breaker, cause, now=now, roll=roll) if breaker.gate is Gate.OPEN else breaker


def closed(breaker: Breaker) -> Breaker:
    """After a good probe: closed, starting with one message, or half-open where a probe proves too little."""
    if breaker.gate is not Gate.OPEN:
        return breaker
    gate = Gate.HALF_OPEN if breaker.needs_trials else Gate.CLOSED
    return replace(breaker, gate=gate, probing_until=None, acceptances=0, allowance=1)


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


def tempered(breaker: Breaker, outcome: Outcome) -> Outcome:
    """While half-open a refusal only defers: a trial never wipes a message."""
    if breaker.gate is Gate.HALF_OPEN and isinstance(outcome, Rejected) and outcome.cause.code is not None:
        return Deferred(outcome.cause, outcome.raw)
    return outcome


def _open(breaker: Breaker, cause: Cause, *, now: float, roll: float) -> Breaker:
    openings = breaker.openings + 1
    again = breaker.gate is Gate.OPEN
    return Breaker(
        gate=Gate.OPEN,
        cause=cause,
        opened_at=breaker.opened_at if again else now,
        next_probe_at=now + WAITS.delay(openings, roll=roll),
        openings=openings,
        allowance=0,
        needs_trials=cause.phase not in _PROVEN_BY_PROBE or (again and breaker.needs_trials),
    )
