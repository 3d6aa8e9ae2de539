"""The exceptions that callers may catch, and nothing else.

::

    OutboxError
    ├── MessageRefused        a field of the message or an option is not acceptable; nothing was written
    ├── IdempotencyConflict   the key exists already, for other recipients; nothing was written
    ├── NotTransactional      the connection given could not roll the mail back with your own work
    ├── PayloadUnreadable     an envelope that this key ring does not open
    ├── UpgradeBlocked        a migration had to wait too long for other sessions; nothing of it was applied
    └── ConfigurationError    settings, key ring or schema: the process must not start (exit code 78)

No message of these contains a body, a subject, a key or a password.
"""

from __future__ import annotations

from enum import StrEnum


class OutboxError(Exception):
    """Base of everything this package raises on purpose."""


class MessageRefused(OutboxError):
    """Raised before any row is added; the caller's transaction stays usable.

    ``field`` names what is wrong (``to``, ``headers[X-Tag]``, ``attachments[0].name``), ``reason`` says why and
    how to cure it.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class IdempotencyConflict(OutboxError):
    """The idempotency key ``key`` is taken by a message to other recipients."""

    def __init__(self, reason: str, *, key: str = "") -> None:
        super().__init__(reason)
        self.key = key


class NotTransactional(OutboxError):
    """A rollback of the caller would leave the mail behind (or take it along with somebody else's work)."""


class Unreadable(StrEnum):
    """Why an envelope could not be opened; what follows from each is SECURITY's table, decided by the worker."""

    UNKNOWN_KEY = "unknown_key"  #: no key of the ring has this id
    REVOKED = "revoked"  #: the ring has the key but marks it revoked
    LOST = "lost"  #: the ring's tombstone says that this key was destroyed or lost
    NEWER_FORMAT = "newer_format"  #: version or suite of a later release
    WRONG_MATERIAL = "wrong_material"  #: commitment differs: the right id with other material
    ALTERED = "altered"  #: commitment matches, authentication fails: altered or moved to another row
    MALFORMED = "malformed"  #: no envelope at all, too short, or the content is not a message


class PayloadUnreadable(OutboxError):
    """An envelope that cannot be opened; ``reason`` tells how."""

    def __init__(self, reason: Unreadable) -> None:
        super().__init__(reason.value)
        self.reason = reason


class UpgradeBlocked(OutboxError):
    """One sentence: the migration, who was in its way, and what to do. Those before it are applied and recorded."""


class ConfigurationError(OutboxError):
    """One sentence: the setting or file, why it is refused, and the cure. Never the value of a secret."""
