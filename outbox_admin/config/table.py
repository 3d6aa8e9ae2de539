"""The one list of settings. The README's tables are made from it, and a test compares both ways."""

from __future__ import annotations

from outbox_admin.config.mail_settings import MAIL_SETTINGS
from outbox_admin.config.running_settings import RUNNING_SETTINGS
from outbox_admin.config.setting import PREFIX, Setting

__all__ = ["BY_NAME", "PREFIX", "SETTINGS", "Setting"]

SETTINGS: tuple[Setting, ...] = (*MAIL_SETTINGS, *RUNNING_SETTINGS)
BY_NAME = {setting.name: setting for setting in SETTINGS}
