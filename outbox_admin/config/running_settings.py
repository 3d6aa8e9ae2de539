"""The settings of worker, retention and console."""

from __future__ import annotations

from outbox_admin.config import values
from outbox_admin.config.setting import Setting

_WORKER, _KEEPING, _CONSOLE = "Worker", "Retention", "Console"

RUNNING_SETTINGS: tuple[Setting, ...] = (
    Setting(
        _WORKER,
        "OUTBOX_LANES",
        values.whole(1, 256),
        "4",
        "SMTP connections (and threads) of one worker.",
    ),
    Setting(_WORKER, "OUTBOX_BATCH", values.whole(1, 1000), "20", "Rows of one claim."),
    Setting(
        _WORKER,
        "OUTBOX_CYCLE",
        values.SECONDS,
        "2s",
        "Pause of an idle worker; a full batch is followed at once.",
    ),
    Setting(
        _WORKER,
        "OUTBOX_LEASE",
        values.SPAN,
        "5m",
        "How long a claim is good; older `sending` rows are reclaimed.",
    ),
    Setting(
        _WORKER,
        "OUTBOX_MAX_ATTEMPTS",
        values.whole(1, 100),
        "8",
        "Counted attempts before a message is `failed`; a message keeps what held when it was enqueued.",
    ),
    Setting(
        _WORKER,
        "OUTBOX_BACKOFF_BASE",
        values.SECONDS,
        "10s",
        "Wait after the first failed attempt; it doubles.",
    ),
    Setting(
        _WORKER,
        "OUTBOX_BACKOFF_CAP",
        values.SECONDS,
        "1h",
        "Longest wait, before the jitter is added.",
    ),
    Setting(
        _WORKER,
        "OUTBOX_BACKOFF_JITTER",
        values.SHARE,
        "0.25",
        "Largest part of the wait that chance adds on top.",
    ),
    Setting(
        _WORKER,
        "OUTBOX_GIVE_UP_AFTER",
        values.SPAN,
        "3d",
        "A message still waiting this long after it first became due is `failed`.",
    ),
    Setting(
        _WORKER,
        "OUTBOX_STOP_GRACE",
        values.SECONDS,
        "25s",
        "Time that a stopping worker gives to hand-overs in progress.",
    ),
    Setting(
        _WORKER,
        "OUTBOX_EMBEDDED_WORKER",
        values.FLAG,
        "0",
        "Run a worker inside the console's process.",
        in_development="1",
    ),
    Setting(
        _WORKER,
        "OUTBOX_ERROR_DETAIL",
        values.FLAG,
        "1",
        "Keep the first 500 characters of a reply, sealed, for `outbox-admin explain`.",
    ),
    Setting(
        _KEEPING,
        "OUTBOX_PURGE",
        values.FLAG,
        "1",
        "Let workers apply the retention by themselves.",
    ),
    Setting(
        _KEEPING,
        "OUTBOX_KEEP_PAYLOAD",
        values.SPAN,
        "30d",
        "How long `failed` and `uncertain` messages keep their payload.",
    ),
    Setting(
        _KEEPING,
        "OUTBOX_KEEP_DONE",
        values.SPAN,
        "90d",
        "How long rows of sent, expired, cancelled and superseded messages (and their keys) are kept.",
    ),
    Setting(
        _KEEPING,
        "OUTBOX_KEEP_DEAD",
        values.SPAN,
        "365d",
        "How long rows of failed, rejected and uncertain messages are kept.",
    ),
    Setting(
        _CONSOLE,
        "OUTBOX_CONSOLE_SECRET",
        values.TEXT,
        None,
        "At least 32 random characters; signs the console's own tokens, never a payload.",
        secret=True,
    ),
    Setting(
        _CONSOLE,
        "OUTBOX_PUBLIC_URL",
        values.url("http", "https"),
        None,
        "Address under which browsers reach the console.",
    ),
    Setting(
        _CONSOLE,
        "OUTBOX_TRUSTED_HOSTS",
        values.NAMES,
        None,
        "Host names that the console answers to; the public URL's host when unset.",
    ),
    Setting(
        _CONSOLE,
        "OUTBOX_BIND",
        values.BIND,
        "127.0.0.1:8025",
        "Where `outbox-admin web` listens.",
    ),
    Setting(
        _CONSOLE,
        "OUTBOX_ALLOW_HTTP",
        values.FLAG,
        "0",
        "Accept a public URL without TLS; every page then says so.",
    ),
    Setting(
        _CONSOLE,
        "OUTBOX_METRICS_TOKEN",
        values.TEXT,
        None,
        "Bearer token for `/metrics` on console and worker host; without one the page is closed.",
        secret=True,
    ),
)
