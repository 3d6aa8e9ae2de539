"""The public :class:`Outbox`: the producer's, which can also be made from the settings.

It stands outside the producer's room, since that room reads no settings. Nothing else belongs here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from outbox_admin import producer
from outbox_admin.config import Role, Settings
from outbox_admin.crypto.watched import open_ring


class Outbox(producer.Outbox):
    """The producer's entry, see :class:`outbox_admin.producer.Outbox`."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """By ``OUTBOX_KEY_RING``, ``OUTBOX_SENDER`` and their fellows; raises :class:`ConfigurationError`.

        The ring's file is looked at again every 30 s, so that a rotation needs no restart.
        """
        return cls.from_settings(Settings.from_env() if environ is None else Settings.from_env(environ))

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """As :meth:`from_env`, from settings already read."""
        settings.require(Role.PRODUCER)
        return cls(
            keys=open_ring(str(settings.key_ring), text=settings.key_ring_text),
            sender=str(settings.sender),
            max_message=settings.max_message,
            max_attempts=settings.max_attempts,
            notify=settings.notify,
        )
