"""The console: server-rendered pages over db.reads, buttons over db.store.

It holds no key and selects no payload: it could not show a message's text if it wanted to.
"""

from __future__ import annotations

from outbox_admin.web.factory import create_app, mount
from outbox_admin.web.settings import WebSettings

__all__ = ["WebSettings", "create_app", "mount"]
