"""The settings: the only reader of the environment. Nothing here opens a database, a key ring or a socket.

``table`` is the one list of names, from which the README's tables are made; ``values`` reads one value;
``environment`` finds the values; ``settings`` is what the rest of the package gets; ``refusals`` says why a
process must not start.
"""

from __future__ import annotations

from outbox_admin.config.refusals import Role
from outbox_admin.config.settings import Settings
from outbox_admin.config.table import SETTINGS, Setting

__all__ = ["SETTINGS", "Role", "Setting", "Settings"]
