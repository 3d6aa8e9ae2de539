"""The tables, by whom they serve. States and kinds are text.

No triggers, and no CHECK on payload or recipient: a violation would print the row.
"""

from outbox_admin.db.schema.base import metadata
from outbox_admin.db.schema.console import (
    audit_entry,
    console_session,
    console_throttle,
    console_user,
    retry_plan,
)
from outbox_admin.db.schema.delivery import (
    LATENCY_BUCKETS,
    LATENCY_COLUMNS,
    outbox_hold,
    outbox_key,
    outbox_meta,
    outbox_minute,
    outbox_route,
    outbox_route_worker,
    outbox_worker,
    suppression,
)
from outbox_admin.db.schema.messages import email_attempt, email_outbox

__all__ = [
    "LATENCY_BUCKETS",
    "LATENCY_COLUMNS",
    "audit_entry",
    "console_session",
    "console_throttle",
    "console_user",
    "email_attempt",
    "email_outbox",
    "metadata",
    "outbox_hold",
    "outbox_key",
    "outbox_meta",
    "outbox_minute",
    "outbox_route",
    "outbox_route_worker",
    "outbox_worker",
    "retry_plan",
    "suppression",
]
