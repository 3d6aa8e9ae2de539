"""Holds: what an operator keeps back, and how its value is spelled. Pure.

A domain means that domain alone: a subdomain has mail servers of its own. All subdomains of a name, and not the name
itself, are written with a leading dot: ``.example.com``.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from outbox_admin.core.address import parse_domain
from outbox_admin.errors import MessageRefused

MAX_TEMPLATE = 200  #: characters, as for the template key of a message
MAX_REASON = 500
STAMP = "hold:"


class Scope(StrEnum):
    """What a hold covers."""

    EVERYTHING = "everything"
    TEMPLATE = "template"  #: messages of one template key
    DOMAIN = "domain"  #: messages to recipients of one domain


@dataclass(frozen=True, slots=True)
class Hold:
    """While it lasts, no row that it covers is claimed. ``until`` None: until somebody lifts it."""

    id: UUID
    scope: Scope
    value: str
    reason: str
    who: str
    created_at: datetime
    until: datetime | None

    @classmethod
    def of(cls, stored: Any) -> Hold:
        """From a row of the table; its scope must be one that this version knows."""
        scope = Scope(stored.scope)
        return cls(stored.id, scope, stored.value, stored.reason, stored.who, stored.created_at, stored.until)

    @property
    def stamp(self) -> str:
        """What stands in ``held`` of the rows that it keeps back."""
        return stamp_of(self.id)

    @property
    def told(self) -> str:
        """For the audit log, which still knows a hold when it is long lifted: ``0190a1f2-… domain example.com``."""
        return f"{self.id} {self.scope} {self.value}".rstrip()


def stamp_of(hold_id: UUID) -> str:
    """By the id alone: the stamps of a hold that only a later version understands are not cleared by this one."""
    return f"{STAMP}{hold_id.hex}"


def value_of(scope: Scope, text: str) -> str:
    """The value as it is stored. Raises :class:`MessageRefused`, which names the scope as its field."""
    match scope:
        case Scope.EVERYTHING:
            if text:
                raise MessageRefused(scope, "takes no name; hold a template or a domain instead")
            return ""
        case Scope.TEMPLATE:
            return _line(text, field=scope, longest=MAX_TEMPLATE)
        case Scope.DOMAIN:
            dot = "." if text.strip(" ").startswith(".") else ""
            return dot + parse_domain(text.strip(" ").removeprefix("."), field=scope)


def reason_of(text: str) -> str:
    """One line that tells the next person on call why. Raises :class:`MessageRefused`."""
    return _line(text.strip(), field="reason", longest=MAX_REASON)


def _line(text: str, *, field: str, longest: int) -> str:
    if not 1 <= len(text) <= longest:
        raise MessageRefused(field, f"has 1 to {longest} characters, not {len(text)}")
    if any(unicodedata.category(sign) in ("Cc", "Cs") for sign in text):
        raise MessageRefused(field, "has no control characters")
    return text
