"""Workers in processes of their own, over the database and the ring of a room."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.delivery.room import SENDER, Room
from tests.support.children import child
from tests.support.ports import HOST

TOKEN = "a token for the figures"


class Listening(Protocol):
    """A relay."""

    port: int


def environ(room: Room, folder: Path, relay: Listening) -> dict[str, str]:
    ring = folder / "keyring.json"
    if not ring.exists():
        room.ring.write(ring)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | {
        "OUTBOX_ENV": "test",
        "OUTBOX_DATABASE_URL": room.engine.url.render_as_string(hide_password=False),
        "OUTBOX_KEY_RING": str(ring),
        "OUTBOX_SENDER": SENDER,
        "OUTBOX_SMTP_URL": f"smtp://{HOST}:{relay.port}",
        "OUTBOX_SMTP_TLS": "none",
        "OUTBOX_CYCLE": "0.2s",
        "OUTBOX_METRICS_TOKEN": TOKEN,
    }


@contextmanager
def process(
    room: Room, folder: Path, relay: Listening, *command: str, **settings: str
) -> Iterator[subprocess.Popen[bytes]]:
    """``settings`` are environment variables beside those of :func:`environ`."""
    folder.mkdir(exist_ok=True)
    with (folder / "log").open("ab") as log:
        options = {"env": environ(room, folder, relay) | settings, "stdout": log, "stderr": log}
        with child([sys.executable, *command], **options) as running:
            yield running
