"""What one setting is: its name, how it is read, what stands for it when it is not set, and a sentence.

``default`` is the text that stands for it in production; ``in_development`` and ``in_plain`` are given where
development and test, or ``OUTBOX_RULES=plain``, have another.
"""

from __future__ import annotations

from dataclasses import dataclass

from outbox_admin.config.values import Kind

PREFIX = "OUTBOX_"


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable. A secret may also come from the file that ``<name>_FILE`` names."""

    section: str
    name: str
    kind: Kind
    default: str | None
    sentence: str
    in_development: str | None = None
    in_plain: str | None = None
    secret: bool = False

    @property
    def attribute(self) -> str:
        """The field of :class:`~outbox_admin.config.Settings`."""
        return self.name.removeprefix(PREFIX).lower().replace("5xx", "five_xx")
