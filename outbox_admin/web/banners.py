"""What every page must say before anything else: mail is not sent, or not to whom it is addressed; the way is open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from outbox_admin.core.words import plural, span
from outbox_admin.db.reads import crew, deployment
from outbox_admin.db.reads.crew import Notices
from outbox_admin.web.present import mask
from outbox_admin.web.visit import Visit


@dataclass(frozen=True, slots=True)
class Banner:
    """``tone`` bad, warn or nothing; ``command`` is what ends it, where one does."""

    tone: str
    icon: str
    title: str
    sentence: str
    command: str = ""


def banners(asking: Visit, *, readable: bool) -> tuple[Banner, ...]:
    """``readable`` False: nobody is signed in, or the database cannot be read; then only what the settings say."""
    told = crew.notices(asking.db, now=asking.now) if readable else None
    found = list(_about_delivery(asking, told)) if told is not None else []
    settings = asking.console.settings
    if told.simulating if told is not None and told.alive else settings.simulating:
        found.append(_SIMULATED)
    if settings.insecure_http:
        found.append(_INSECURE)
    if settings.notice:
        found.append(Banner("", "dash", "", settings.notice))
    return tuple(found)


def _about_delivery(asking: Visit, told: Notices) -> Iterator[Banner]:
    if told.copied or not told.alive:
        seen = deployment.copy_seen_at(asking.db)
        if seen is not None or told.copied:
            ago = f" {span((asking.now - seen).total_seconds())} ago" if seen else ""
            yield Banner(
                "bad",
                "triangle",
                f"Sending has stopped: this database is a copy, noticed{ago}.",
                _COPY,
                _CONFIRM,
            )
    if told.paused:
        one = told.paused == 1
        were, them = (
            ("was started paused and sends", "it") if one else ("were started paused and send", "them")
        )
        title = f"{plural(told.paused, 'worker')} of {told.alive} {were} nothing."
        yield Banner("warn", "pause", title, f"This lets {them} send:", "outbox-admin resume")
    if told.redirected_to:
        shown = ", ".join(mask(address) for address in told.redirected_to)
        yield Banner(
            "warn", "skip", "Mail is redirected.", f"Every message goes to {shown} instead of its recipient."
        )


_CONFIRM = "outbox-admin resume --confirm-copy"
_COPY = (
    "Its messages may be sent from the original, so that sending them here too would make doubles. "
    "Leave it as it is if it is a copy to look at; if it shall send from now on, run"
)
_SIMULATED = Banner(
    "warn",
    "pause",
    "Mail is simulated.",
    "No relay is configured: messages are marked sent, nothing leaves. Set OUTBOX_SMTP_URL to send.",
)
_INSECURE = Banner(
    "bad",
    "triangle",
    "This console is reached over plain http.",
    "Passwords and pages can be read on the way.",
)
