"""What keeps mail from going out although somebody works: sentences that say what, since when, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from outbox_admin.core.catalogue import cure, words
from outbox_admin.core.health import Figures, Finding, Held, Level, MissingKey, Pause
from outbox_admin.core.hold import Scope
from outbox_admin.core.words import plural, span

#: Holds told one by one; of more only the number.
HOLDS_TOLD = 5


def copied(figures: Figures) -> Iterator[Finding]:
    since = figures.copied_since
    if since is None:
        return
    yield Finding(
        "copied",
        Level.CRITICAL,
        f"This database is a copy; sending has stopped {_for(since, figures.now)}, so that no mail goes out twice.",
        "Leave it so if it is a copy to look at; if it shall send from now on, confirm it.",
        command="outbox-admin resume --confirm-copy",
    )


def paused(figures: Figures) -> Iterator[Finding]:
    number = figures.crew.paused
    if not number:
        return
    were, send = ("was", "it sends") if number == 1 else ("were", "they send")
    yield Finding(
        "paused",
        Level.WARNING,
        f"{plural(number, 'worker')} {were} started paused (--paused); {send} nothing.",
        "This lets them send:" if number > 1 else "This lets it send:",
        command="outbox-admin resume",
    )


def routes(figures: Figures, *, at_least: Level) -> Iterator[Finding]:
    """``at_least``: a route that stands still is as bad as what it delays."""
    for pause in figures.pauses:
        found = _pause(pause, now=figures.now)
        worse = pause.host is None and at_least.rank > found.level.rank
        yield replace(found, level=at_least) if worse else found


def holds(figures: Figures) -> Iterator[Finding]:
    yield from (_hold(held, now=figures.now) for held in figures.holds[:HOLDS_TOLD])
    others = len(figures.holds) - HOLDS_TOLD
    if others > 0:
        yield Finding(
            "holds", Level.WARNING, f"And {plural(others, 'other hold')}.", command="outbox-admin holds"
        )
    left = figures.held.get("hold")
    if left is not None and left.value and not figures.holds:
        yield Finding("hold", Level.OK, f"{left} held messages are being given back: their hold is over.")


def missing_keys(figures: Figures) -> Iterator[Finding]:
    yield from (_missing_key(key, now=figures.now) for key in figures.missing_keys)


def redirected(figures: Figures) -> Iterator[Finding]:
    if figures.redirected_to:
        yield Finding(
            "redirect",
            Level.OK,
            "Every mail is redirected to a test address; no recipient gets any.",
            "OUTBOX_REDIRECT_TO of the workers says where to.",
        )


def _pause(pause: Pause, *, now: datetime) -> Finding:
    why = f": {words(pause.cause)}" if pause.cause else ""
    since = f" {_for(pause.since, now)}" if pause.since else ""
    advice = cure(pause.cause) if pause.cause else "Check the relay."
    if pause.host is not None:
        sentence = (
            f"Worker {pause.host} alone has paused route {pause.route}{since}{why}.{_probe(pause, now=now)}"
        )
        cured = f"Others send over it: look at that machine. {advice}"
        return Finding("route", Level.WARNING, sentence, cured)
    if pause.trials is not None:
        sentence = (
            f"Route {pause.route} is on trial after a pause{since}{why}. "
            f"{plural(pause.trials, 'message')} at a time; more with each one accepted."
        )
        return Finding("route", Level.WARNING, sentence, advice)
    sentence = f"Sending on route {pause.route} is paused{since}{why}.{_probe(pause, now=now)}"
    return Finding(
        "route",
        Level.WARNING,
        sentence,
        f"{advice} What waits loses no attempt.",
        subject=pause.route,
        command=f"outbox-admin probe {pause.route}",
    )


def _probe(pause: Pause, *, now: datetime) -> str:
    if pause.probing_by is not None:
        return f" Worker {pause.probing_by} tries it right now."
    if pause.next_probe_at is None:
        return ""
    left = (pause.next_probe_at - now).total_seconds()
    return f" Next try in {span(left)}." if left > 0 else " The next try is due."


def _hold(held: Held, *, now: datetime) -> Finding:
    hold = held.hold
    end = f"; it ends by itself in {span((hold.until - now).total_seconds())}" if hold.until else ""
    some = held.rows.value == 1 and not held.rows.capped
    waiting = (
        f" {held.rows} {'message waits' if some else 'messages wait'} for it." if held.rows.value else ""
    )
    sentence = (
        f"{covered(hold.scope, hold.value)} is held {_for(hold.created_at, now)} by {hold.who}: “{hold.reason}”{end}."
        f"{waiting}"
    )
    lift = f"outbox-admin unhold {hold.id}"
    return Finding(
        "hold",
        Level.WARNING,
        sentence,
        "Lift it when its reason is gone.",
        subject=str(hold.id),
        command=lift,
    )


def covered(scope: Scope, value: str) -> str:
    """What a hold keeps back, at the beginning of a sentence."""
    match scope:
        case Scope.EVERYTHING:
            return "Everything"
        case Scope.TEMPLATE:
            return f"Template {value}"
        case Scope.DOMAIN:
            return (
                f"Mail to {value}"
                if not value.startswith(".")
                else f"Mail to all of {value[1:]}'s subdomains"
            )


def _missing_key(key: MissingKey, *, now: datetime) -> Finding:
    some = key.waiting.value == 1 and not key.waiting.capped
    verb, pronoun = ("message waits", "it is") if some else ("messages wait", "they are")
    if key.revoked:
        return Finding(
            "key",
            Level.CRITICAL,
            f"{key.waiting} {verb} for key {key.kid}, which the key ring calls revoked.",
            "Enable it in the ring to send them, or declare it lost to reject them; until then they wait.",
            subject=key.kid,
            command=f"outbox-admin keys declare-lost {key.kid}",
        )
    left = (key.rejects_at - now).total_seconds()
    when = f"in {span(left)}" if left > 0 else "with the next cycle"
    return Finding(
        "key",
        Level.CRITICAL,
        f"{key.waiting} {verb} for key {key.kid}, which no worker holds.",
        f"Restore the key ring, or declare the key lost; {when} {pronoun} rejected.",
        subject=key.kid,
    )


def _for(since: datetime, now: datetime) -> str:
    return f"for {span((now - since).total_seconds())}"
