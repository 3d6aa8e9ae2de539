"""What became of a message in doubt: the operator says it, on a question page of its own for each answer."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from flask import Blueprint, redirect, render_template, url_for
from werkzeug.wrappers import Response as BaseResponse

from outbox_admin.core.lifecycle import State
from outbox_admin.db.store import operator
from outbox_admin.db.store.operator import Answer, RetryResult
from outbox_admin.web import audit
from outbox_admin.web.detail import detail
from outbox_admin.web.frame import leave_note
from outbox_admin.web.guard import access
from outbox_admin.web.message import SAID, found, page_of
from outbox_admin.web.visit import Role, Visit, visit

pages = Blueprint("settle", __name__)


#: As they stand in the address.
ANSWERS = {"arrived": Answer.ARRIVED, "resend": Answer.RESEND, "give-up": Answer.GIVE_UP}


@dataclass(frozen=True, slots=True)
class Words:
    """One answer's question; ``done`` is said afterwards."""

    title: str
    touches: str
    warning: str
    button: str
    done: str


WORDS = {
    Answer.ARRIVED: Words(
        "Did it arrive?",
        "It becomes Sent and its payload is cleared at once. Nothing is sent; this cannot be undone.",
        "Say so only if the relay's log shows its Message-ID, or the recipient has it.",
        "It arrived",
        "The message is settled: it arrived.",
    ),
    Answer.RESEND: Words(
        "Send it again?",
        "It is queued now, with all its attempts anew and the same Message-ID.",
        "If the relay took it after all, the recipient gets a second copy.",
        "Send it again",
        "The message is queued again, with all its attempts.",
    ),
    Answer.GIVE_UP: Words(
        "Give it up?",
        "It becomes Cancelled and its payload is cleared at once. It is never sent again; this cannot be undone.",
        "If the relay did not take it, the recipient never gets this message.",
        "Give it up",
        "The message is given up.",
    ),
}


@pages.get("/messages/<uuid:row_id>/settle/<any(arrived, resend, 'give-up'):answer>")
@access(Role.OPERATOR)
def ask(row_id: UUID, answer: str) -> BaseResponse:
    message = found(row_id)
    if message.state is not State.UNCERTAIN:
        return page_of(message, note=_too_late(message.state), code=409)
    view, words = detail(visit(), message), WORDS[ANSWERS[answer]]
    return BaseResponse(
        render_template("outbox/settle.html", view=view, words=words, answer=answer), mimetype="text/html"
    )


@pages.post("/messages/<uuid:row_id>/settle/<any(arrived, resend, 'give-up'):answer>")
@access(Role.OPERATOR)
def apply(row_id: UUID, answer: str) -> BaseResponse:
    """409 where somebody, or a late result, was first."""
    asking, wanted = visit(), ANSWERS[answer]
    message = found(row_id)
    refusal = _apply(asking, row_id, wanted) if message.state is State.UNCERTAIN else _too_late(message.state)
    audit.record(asking, "settle", target=str(row_id), result="refused" if refusal else wanted)
    asking.db.commit()
    if refusal:
        return page_of(found(row_id), note=refusal, code=409)
    return leave_note(redirect(url_for("outbox.message.show", row_id=row_id), 303), WORDS[wanted].done)


def _apply(asking: Visit, row_id: UUID, answer: Answer) -> str:
    """Why not, in a sentence; empty when it was done. The state is part of each statement."""
    if answer is Answer.RESEND:
        result = operator.resend(asking.db, row_id, now=asking.now)
        return "" if result is RetryResult.MOVED else SAID[result]
    if operator.settle(asking.db, row_id, arrived=answer is Answer.ARRIVED, now=asking.now):
        return ""
    return "Nothing was changed: somebody else settled it a moment ago."


def _too_late(state: State) -> str:
    return f"Nothing was changed: it is not in doubt any more, it is {state.value} now."
