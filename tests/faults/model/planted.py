"""Faults to plant into the engine, each of a kind that real queues had: the property test must find every one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from outbox_admin.core import lifecycle
from outbox_admin.core.lifecycle import OnUnknown, State
from outbox_admin.db.schema import email_outbox
from outbox_admin.db.store import candidates, marks, operator, reclaim, results, superseding
from outbox_admin.db.store.rows import row
from outbox_admin.delivery.ledger import Ledger

Plant = Callable[[pytest.MonkeyPatch], None]


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """For as long as this lasts. Statements that were built once are built anew, before and after."""
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        _forget_statements()
        try:
            yield
        finally:
            patch.undo()
            _forget_statements()


def _forget_statements() -> None:
    modules = [module for name, module in sys.modules.items() if name.startswith("outbox_admin.db.")]
    for thing in {id(thing): thing for module in modules for thing in vars(module).values()}.values():
        if hasattr(thing, "cache_clear"):
            thing.cache_clear()


def reclaims_without_a_doubt(patch: pytest.MonkeyPatch) -> None:
    values = reclaim._values
    patch.setattr(reclaim, "_values", lambda now: values(now) | {"maybe_delivered": row.maybe_delivered})


def reclaims_at_the_limit(patch: pytest.MonkeyPatch) -> None:
    """Into `pending`, with no attempt left."""
    values = reclaim._values
    waits = {"state": State.PENDING.value, "finished_at": None}
    patch.setattr(reclaim, "_values", lambda now: values(now) | waits)


def forgets_the_mark(patch: pytest.MonkeyPatch) -> None:
    mark = marks.mark_handover

    def forgetful(db: sa.Connection, claims: Any, **terms: Any) -> set[UUID]:
        ours = mark(db, claims, **terms)
        db.execute(sa.update(email_outbox).where(row.id.in_(ours)).values(handover_at=None))
        return ours

    patch.setattr(marks, "mark_handover", forgetful)


def records_what_is_not_its_own(patch: pytest.MonkeyPatch) -> None:
    def change(number: int) -> Any:
        new = results._list(number).c
        changed = sa.update(email_outbox).where(row.id == new.id)
        return changed.values(results._assigned(new)).returning(row.id)

    patch.setattr(results, "_change", change)


def keeps_the_payload_of_what_is_sent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(results, "WITH_PAYLOAD", frozenset(State))


def forgets_a_doubt(patch: pytest.MonkeyPatch) -> None:
    """An unknown outcome is taken for a temporary one."""

    def later(cause: Any, raw: str, standing: Any, **terms: Any) -> Any:
        return lifecycle._later("unknown", cause, raw, standing, **terms)

    patch.setattr(lifecycle, "_in_doubt", later)


def sends_again_what_must_not_be(patch: pytest.MonkeyPatch) -> None:
    in_doubt = lifecycle._in_doubt

    def resend(cause: Any, raw: str, standing: Any, **terms: Any) -> Any:
        asked = lifecycle.Standing(standing.attempt, standing.max_attempts, OnUnknown.RESEND)
        return in_doubt(cause, raw, asked, **terms)

    patch.setattr(lifecycle, "_in_doubt", resend)


def retries_without_new_attempts(patch: pytest.MonkeyPatch) -> None:
    requeued = operator.requeued

    def kept(now: datetime) -> dict[str, Any]:
        return requeued(now) | {"attempts": row.attempts}

    patch.setattr(operator, "requeued", kept)


def asks_no_hold_at_the_mark(patch: pytest.MonkeyPatch) -> None:
    class Blind:
        covering = staticmethod(lambda now: sa.null())

    class Unheld:
        NOW = candidates.NOW
        clear = staticmethod(lambda now: candidates.clear(now)[:-1])

    patch.setattr(marks, "holds", Blind)
    patch.setattr(marks, "candidates", Unheld)


def asks_for_no_newer_message(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(superseding, "is_superseded", sa.false)


def gives_up_a_result(patch: pytest.MonkeyPatch) -> None:
    """A database that is away for a moment loses what the relay has said."""

    def once(ledger: Ledger) -> bool:
        written = ledger._write()
        ledger._open = []
        return written

    patch.setattr(Ledger, "flush", once)


#: Those that show soonest; the test command plants them, the thorough profile plants all.
SOME_PLANTS: tuple[Plant, ...] = (
    forgets_the_mark,
    forgets_a_doubt,
    keeps_the_payload_of_what_is_sent,
    asks_no_hold_at_the_mark,
    asks_for_no_newer_message,
)
PLANTS: tuple[Plant, ...] = (
    *SOME_PLANTS,
    reclaims_without_a_doubt,
    reclaims_at_the_limit,
    records_what_is_not_its_own,
    sends_again_what_must_not_be,
    retries_without_new_attempts,
    gives_up_a_result,
)
