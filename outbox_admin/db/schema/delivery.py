"""What workers keep beside the queue: keys, routes, heartbeats, holds, counts, addresses not to be mailed."""

from __future__ import annotations

import sqlalchemy as sa

from outbox_admin.db.schema.base import cause, metadata
from outbox_admin.db.types import UtcDateTime

outbox_key = sa.Table(
    "outbox_key",
    metadata,
    sa.Column("kid", sa.Text, primary_key=True),
    sa.Column("check_value", sa.Text),  # empty until a worker that holds the key registered it
    sa.Column("state", sa.Text, nullable=False, server_default="known"),  # known, lost
    sa.Column("proven_at", UtcDateTime),  # a payload was authenticated with it
    sa.Column("missing_since", UtcDateTime),  # no live worker holds it although rows wait for it
    sa.Column("created_at", UtcDateTime, nullable=False),
)

outbox_route = sa.Table(
    "outbox_route",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("breaker", sa.Text, nullable=False, server_default="closed"),  # closed, open, half_open
    sa.Column("opened_at", UtcDateTime),
    sa.Column("next_probe_at", UtcDateTime),
    sa.Column("probing_by", sa.Text),
    sa.Column("probing_until", UtcDateTime),
    sa.Column("openings", sa.Integer, nullable=False, server_default="0"),
    sa.Column("acceptances", sa.Integer, nullable=False, server_default="0"),
    sa.Column("allowance", sa.Integer, nullable=False, server_default="0"),
    sa.Column("last_accepted_at", UtcDateTime),
    sa.Column("next_slot_at", UtcDateTime),
    *cause()[:-1],
    sa.Column("needs_trials", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("trials", sa.JSON(none_as_null=True)),  # permits while half-open: [{"by":, "until":}]
    sa.Column("streak", sa.JSON(none_as_null=True)),  # equal deferrals in a row
)

#: What one worker last met on one route; each worker writes its own rows only.
outbox_route_worker = sa.Table(
    "outbox_route_worker",
    metadata,
    sa.Column("route", sa.Text, primary_key=True),
    sa.Column("worker", sa.Text, primary_key=True),
    sa.Column("good_at", UtcDateTime),  # the last acceptance or good probe
    sa.Column("fault_at", UtcDateTime),
    sa.Column("weather", sa.JSON(none_as_null=True)),  # [[second, judged, rejected]]
)

outbox_worker = sa.Table(
    "outbox_worker",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),  # host:pid:random
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # worker, gunicorn, embedded
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False, server_default="active"),  # active, draining, stopped
    sa.Column("lanes", sa.Integer, nullable=False),
    sa.Column("started_at", UtcDateTime, nullable=False),
    sa.Column("beat_at", UtcDateTime, nullable=False),
    sa.Column("last_cycle_at", UtcDateTime),
    sa.Column("last_progress_at", UtcDateTime),
    sa.Column("holding", sa.Integer, nullable=False, server_default="0"),
    sa.Column("key_ids", sa.JSON, nullable=False),  # list of the ids it can open
    sa.Column("revoked_ids", sa.JSON),  # list of the ids that its key ring has and calls revoked
    sa.Column("accepted", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("rejected", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("deferred", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("faults", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("errors", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("breakers", sa.JSON),  # {route: {"until": iso time, "phase":, "kind":, "code":}}
    sa.Column("simulating", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("routes", sa.JSON),  # list of the names of its routes
    sa.Column("redirect_to", sa.Text),  # whom every mail of this worker goes to instead of its recipient
    sa.Column("seals_until", UtcDateTime),  # when its key ring stops sealing, or stopped; null: never told
)

outbox_hold = sa.Table(
    "outbox_hold",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("scope", sa.Text, nullable=False),  # everything, template, domain
    sa.Column("value", sa.Text, nullable=False, server_default=""),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("until", UtcDateTime),
)

#: Upper ends, in seconds, of the enqueue-to-sent histogram; the last column counts what took longer.
LATENCY_BUCKETS = (1, 5, 30, 120, 600, 3600)
LATENCY_COLUMNS = (*(f"le_{seconds}" for seconds in LATENCY_BUCKETS), "slower")

outbox_minute = sa.Table(
    "outbox_minute",
    metadata,
    sa.Column("minute", UtcDateTime, primary_key=True),
    sa.Column("outcome", sa.Text, primary_key=True),
    sa.Column("template_key", sa.Text, primary_key=True),
    sa.Column("shard", sa.SmallInteger, primary_key=True),
    sa.Column("count", sa.Integer, nullable=False),
    *(sa.Column(name, sa.Integer, nullable=False, server_default="0") for name in LATENCY_COLUMNS),
)

suppression = sa.Table(
    "suppression",
    metadata,
    sa.Column("recipient_key", sa.Text, primary_key=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
)

outbox_meta = sa.Table(
    "outbox_meta",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
