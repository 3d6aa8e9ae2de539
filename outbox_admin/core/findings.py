"""What the figures of a queue mean for the person on call: sentences, levels, cures. Pure: no database, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from outbox_admin.core import stops
from outbox_admin.core.health import START_COMMANDS, Figures, Finding, Level
from outbox_admin.core.words import plural, span

#: Seconds since the earliest passed ``due_at``: (warning, critical). Over it, the dispatcher stands still.
DUE_LIMITS = (60.0, 300.0)
#: Seconds since the oldest open row first became due: (warning, critical).
PENDING_LIMITS = (30 * 60.0, 90 * 60.0)
#: So many refusals within an hour are more than some mistyped addresses.
REJECTED_LIMIT = 20
#: So many that nobody got in time within an hour are more than some late ones.
EXPIRED_LIMIT = 20
#: So long before a key ring stops sealing it is told.
SEALING_NOTICE = timedelta(days=14)


def worst(findings: Sequence[Finding]) -> Level:
    """The level of the whole."""
    return max(
        (finding.level for finding in findings),
        key=lambda level: level.rank,
        default=Level.OK,
    )


def findings(figures: Figures) -> tuple[Finding, ...]:
    """Worst first; within a level in the order in which somebody would look."""
    found = list(_all(figures))
    return tuple(sorted(found, key=lambda finding: -finding.level.rank))


def _all(figures: Figures) -> Iterator[Finding]:
    yield _workers(figures)
    yield from stops.copied(figures)
    yield from stops.paused(figures)
    yield from stops.missing_keys(figures)
    yield from _sealing(figures)
    yield from stops.routes(figures, at_least=_due(figures).level)
    yield from stops.holds(figures)
    yield _due(figures)
    yield _pending(figures)
    yield from _held(figures)
    yield from _dead(figures)
    yield from _expired(figures)
    yield from stops.redirected(figures)


def _workers(figures: Figures) -> Finding:
    crew = figures.crew
    if crew.alive == 0:
        seen = (
            f" The last one was seen {span((figures.now - crew.last_beat_at).total_seconds())} ago."
            if (crew.last_beat_at)
            else ""
        )
        level = Level.WARNING if figures.oldest_due is None else Level.CRITICAL
        cure = "Start one: " + ", or ".join(START_COMMANDS) + "."
        return Finding("workers", level, f"No worker reports; nothing is sent.{seen}", cure)
    if crew.active + crew.draining == 0:
        return Finding(
            "workers", Level.WARNING, f"{plural(crew.alive, 'worker')} alive, and none of them sends."
        )
    if crew.stuck:
        sentence = (
            f"{crew.stuck} of {crew.alive} workers made no progress for over 200 s while holding messages."
        )
        return Finding(
            "workers",
            Level.WARNING,
            sentence,
            "Look at its log and restart it; its messages come back by themselves.",
        )
    lost = f" {crew.lost} stopped reporting." if crew.lost else ""
    working = crew.active + crew.draining
    return Finding("workers", Level.OK, f"{plural(working, 'worker')} at work.{lost}")


def _sealing(figures: Figures) -> Iterator[Finding]:
    until = figures.seals_until
    if until is None or until - figures.now > SEALING_NOTICE:
        return
    cure = "Run outbox-admin keys generate, and copy the key ring to all producers and workers."
    if until <= figures.now:
        yield Finding("sealing", Level.CRITICAL, "No key seals any more: nothing can be enqueued.", cure)
        return
    left = span((until - figures.now).total_seconds())
    yield Finding("sealing", Level.WARNING, f"In {left} no key seals any more; then enqueue refuses.", cure)


def _due(figures: Figures) -> Finding:
    age = figures.oldest_due
    if age is None:
        return Finding("due", Level.OK, "Nothing is overdue.")
    level = _graded(age, DUE_LIMITS)
    stopped = figures.pauses or figures.crew.copied or figures.crew.paused
    slow = "The dispatcher does not keep up: see the workers and the routes."
    cure = "" if level is Level.OK else "It waits for what is named here." if stopped else slow
    return Finding(
        "due",
        level,
        f"The oldest due message is {span(age)} late; limit {span(DUE_LIMITS[1])}.",
        cure,
    )


def _pending(figures: Figures) -> Finding:
    age = figures.oldest_pending
    if age is None:
        return Finding("pending", Level.OK, "No message is waiting.")
    level = _graded(age, PENDING_LIMITS)
    cure = "" if level is Level.OK else "Open the oldest message and read why its attempts did not succeed."
    return Finding(
        "pending",
        level,
        f"The oldest open message has been waiting for {span(age)}; limit {span(PENDING_LIMITS[1])}.",
        cure,
    )


def _held(figures: Figures) -> Iterator[Finding]:
    for reason, count in figures.held.items():
        if count.value == 0 or reason == "hold":  # told hold by hold
            continue
        level, sentence, cure, command = _HELD.get(reason, (Level.WARNING, "{n} messages are held.", "", ""))
        yield Finding("held", level, sentence.format(n=count), cure, command=command)


_HELD = {
    "format": (
        Level.WARNING,
        "{n} messages were sealed by a newer version than any worker understands.",
        "Upgrade the workers.",
        "",
    ),
    "unreadable": (
        Level.CRITICAL,
        "{n} messages cannot be opened although a worker holds their key; rejecting was stopped.",
        "Find out what altered the rows or the key ring, then say what becomes of them.",
        "outbox-admin unreadable",
    ),
}


def _dead(figures: Figures) -> Iterator[Finding]:
    if figures.failed.value:
        yield Finding(
            "failed",
            Level.WARNING,
            f"{figures.failed} failed: attempts used up.",
            "Cure the cause, then retry them.",
            command="outbox-admin retry",
        )
    if figures.uncertain.value:
        yield Finding(
            "uncertain",
            Level.WARNING,
            f"{figures.uncertain} in doubt: may have been delivered, and nobody knows.",
            "Look for their Message-IDs in the relay's log, then settle each.",
            command="outbox-admin settle",
        )
    if figures.rejected_last_hour.value:
        level = Level.WARNING if figures.rejected_last_hour.value > REJECTED_LIMIT else Level.OK
        cure = "See whether one cause stands behind them." if level is Level.WARNING else ""
        yield Finding(
            "rejected",
            level,
            f"{figures.rejected_last_hour} rejected in the last hour.",
            cure,
        )


def _expired(figures: Figures) -> Iterator[Finding]:
    number = figures.expired_last_hour
    if number.value:
        level = Level.WARNING if number.value > EXPIRED_LIMIT else Level.OK
        sentence = f"{number} expired unsent in the last hour: their time passed before they could go out."
        yield Finding(
            "expired", level, sentence, "Find out what delayed them." if level is Level.WARNING else ""
        )


def _graded(age: float, limits: tuple[float, float]) -> Level:
    warning, critical = limits
    if age > critical:
        return Level.CRITICAL
    return Level.WARNING if age > warning else Level.OK
