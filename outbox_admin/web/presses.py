"""What to press for a finding: the way from a sentence to the list, the question or the button that answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flask import url_for

from outbox_admin.core.health import Finding, Level
from outbox_admin.web.visit import Role, Visit


@dataclass(frozen=True, slots=True)
class Press:
    """``kind``: link, dialog (a question page), or post (a button that acts at once)."""

    label: str
    url: str
    kind: str = "link"


@dataclass(frozen=True, slots=True)
class FindingView:
    topic: str
    level: Level
    sentence: str
    cure: str
    press: Press | None
    command: str


def shown(asking: Visit, finding: Finding) -> FindingView:
    """A command is named where nothing that can be pressed does the same."""
    press = _press(asking, finding)
    command = finding.command if press is None or finding.topic in _BY_COMMAND else ""
    return FindingView(finding.topic, finding.level, finding.sentence, finding.cure, press, command)


#: What a press leads to shows these; only a command ends them.
_BY_COMMAND = ("key", "held")


def _press(asking: Visit, finding: Finding) -> Press | None:
    """None where nothing is wrong, nothing can be pressed, or the visitor may not."""
    topic, subject = finding.topic, finding.subject
    if topic in ("hold", "route"):
        return _deed(topic, subject) if subject and asking.may(Role.OPERATOR) else None
    if finding.level is Level.OK:
        return None
    match topic:
        case "due":
            return Press("Show what is overdue", _messages(overdue=1))
        case "pending":
            return Press("Show what waits longest", _messages(state="pending", sort="due"))
        case "holds":
            return Press("Show all holds", url_for("outbox.holds.show"))
        case "key":
            return Press("Show them", _messages(key=subject))
        case "held":
            return Press("Show them", _messages(held=1))
        case "failed" | "rejected":
            return Press("Show them by cause", url_for("outbox.dead.show"))
        case "expired":
            return Press("Show them", _messages(state="expired"))
        case "uncertain":
            return Press("Settle them", url_for("outbox.dead.listed", state="uncertain"))
    return None


def _deed(topic: str, subject: str) -> Press:
    if topic == "hold":
        return Press("Lift…", url_for("outbox.holds.ask_lift", hold_id=subject), "dialog")
    return Press("Try it now", url_for("outbox.routes.probe", route=subject), "post")


def _messages(**filters: Any) -> str:
    return url_for("outbox.messages.show", **filters)
