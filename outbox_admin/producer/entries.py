"""From a message to its sealed rows. No database here."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Unpack
from uuid import UUID

from outbox_admin.core.address import parse
from outbox_admin.core.freeze import freeze
from outbox_admin.core.frozen import Frozen
from outbox_admin.core.message import AnyMessage, TemplatedMessage
from outbox_admin.crypto.envelope import Binding, key_id_of
from outbox_admin.crypto.keys import Keys
from outbox_admin.db.store.insertion import Arrival
from outbox_admin.ids import new_id
from outbox_admin.producer.options import Options, OptionValues, check_text


@dataclass(frozen=True, slots=True, init=False)
class Entry:
    """One message of :meth:`Outbox.enqueue_many`, with the options of :meth:`Outbox.enqueue`."""

    message: AnyMessage = field(repr=False)
    idempotency_key: str
    options: Options

    def __init__(self, message: AnyMessage, idempotency_key: str, **options: Unpack[OptionValues]) -> None:
        object.__setattr__(self, "message", message)
        object.__setattr__(self, "idempotency_key", idempotency_key)
        object.__setattr__(self, "options", Options(**options))


@dataclass(frozen=True, slots=True)
class Writer:
    """Who seals, and what a message gets that says nothing about it."""

    keys: Keys = field(repr=False)
    sender: str
    max_message: int
    max_attempts: int

    def rows(self, entry: Entry, *, now: datetime) -> list[Arrival]:
        """The rows of one message, part 0 first. Raises :class:`MessageRefused`."""
        check_text(entry.idempotency_key, field="idempotency_key")
        entry.options.check()
        first = new_id()
        frozen = freeze(
            entry.message,
            default_sender=self.sender,
            message_id=str(first),
            date=max(now, entry.options.not_before or now),
            max_size=self.max_message,
        )
        ids = [first, *(new_id() for _ in frozen.recipients[1:])]
        clear = frozen.to_bytes()
        template = entry.options.template_key or _template_of(entry.message)
        return [
            self._row(entry, frozen, template, clear, part=part, row_id=row_id)
            for part, row_id in enumerate(ids)
        ]

    def _row(
        self, entry: Entry, frozen: Frozen, template: str, clear: bytes, *, part: int, row_id: UUID
    ) -> Arrival:
        options, recipient = entry.options, frozen.recipients[part]
        sealed = self.keys.seal(clear, Binding(row_id, entry.idempotency_key, recipient, template))
        return Arrival(
            id=row_id,
            idempotency_key=entry.idempotency_key,
            part=part,
            recipient=recipient,
            recipient_key=parse(recipient, field="to").key,
            template_key=template,
            message_id=frozen.message_id,
            priority=options.priority,
            max_attempts=options.max_attempts or self.max_attempts,
            not_before=options.not_before,
            expires_at=options.expires_at,
            supersede_key=options.supersede_key,
            on_unknown=str(options.on_unknown),
            correlation_id=options.correlation_id,
            key_id=key_id_of(sealed),
            payload=sealed,
        )


def _template_of(message: AnyMessage) -> str:
    return message.template_key if isinstance(message, TemplatedMessage) else ""
