"""Finds the text of each setting: in the environment, in a file that it names, or in the list's defaults.

Collects every complaint instead of stopping at the first. Never repeats a value: it may be a secret.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Mapping
from pathlib import Path

from outbox_admin.config.ring_source import RingSource, find, variable_of
from outbox_admin.config.table import BY_NAME, PREFIX, SETTINGS, Setting

log = logging.getLogger("outbox_admin.config")

_SERVICE = re.compile(
    r"OUTBOX(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)"
)
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://")
_FILE = "_FILE"


class Environment:
    """Reads values for :class:`~outbox_admin.config.Settings`; ``complaints`` fills up on the way."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {name: text for name, text in environ.items() if text}
        self.complaints: list[str] = []
        self._development = self._plain = False
        self._refuse_unknown_names()
        self._development = self._text(BY_NAME["OUTBOX_ENV"]) in ("development", "test")
        self._plain = self._text(BY_NAME["OUTBOX_RULES"]) == "plain"

    def read(self) -> dict[str, object]:
        """Attribute names and values of all settings; what cannot be read is left out and complained of."""
        found: dict[str, object] = {}
        for setting in SETTINGS:
            text = self._text(setting)
            try:
                found[setting.attribute] = None if text is None else setting.kind.read(text)
            except ValueError as reason:
                self.complaints.append(f"{setting.name} {reason}.")
        return found

    def read_ring(self, source: str | None) -> RingSource | None:
        """What OUTBOX_KEY_RING leads to; None where it is not set or, with a complaint, leads nowhere."""
        try:
            return None if source is None else find(source, self._environ)
        except ValueError as reason:
            self.complaints.append(f"OUTBOX_KEY_RING {reason}.")
            return None

    def is_set(self, name: str) -> bool:
        """Whether the environment gives it, itself or as a file."""
        return name in self._environ or name + _FILE in self._environ

    def _text(self, setting: Setting) -> str | None:
        if setting.secret and setting.name + _FILE in self._environ:
            return self._from_file(setting)
        return self._environ.get(setting.name) or self._default(setting)

    def _default(self, setting: Setting) -> str | None:
        if self._plain and setting.in_plain is not None:
            return setting.in_plain
        if self._development and setting.in_development is not None:
            return setting.in_development
        return setting.default

    def _from_file(self, setting: Setting) -> str | None:
        name = setting.name + _FILE
        if setting.name in self._environ:
            self.complaints.append(f"{setting.name} and {name} are both set; keep one of them.")
            return None
        path = Path(self._environ[name])
        try:
            return path.read_text(encoding="utf-8").rstrip("\r\n") or None
        except (OSError, UnicodeDecodeError) as fault:
            reason = fault.strerror if isinstance(fault, OSError) else "it is not UTF-8 text"
            self.complaints.append(
                f"{name} names {path}, which cannot be read ({reason}); correct path or mode."
            )
            return None

    def _refuse_unknown_names(self) -> None:
        ring = variable_of(self._environ.get("OUTBOX_KEY_RING"))
        known = set(BY_NAME) | {ring or ""} | {setting.name + _FILE for setting in SETTINGS if setting.secret}
        strange = sorted(name for name in self._environ if name.startswith(PREFIX) and name not in known)
        noise = [name for name in strange if _set_by_kubernetes(name, self._environ[name])]
        if noise:
            log.info(
                "ignored what Kubernetes sets for a service of this name: %s",
                ", ".join(noise),
            )
        self.complaints += [_unknown(name, known) for name in strange if name not in noise]


def _set_by_kubernetes(name: str, text: str) -> bool:
    if name.endswith("_PORT") and _SERVICE_URL.match(text):
        return True
    return _SERVICE.fullmatch(name) is not None


def _unknown(name: str, known: set[str]) -> str:
    """Compared without the common prefix, which would make every name look close."""
    rests = sorted(each.removeprefix(PREFIX) for each in known)
    close = difflib.get_close_matches(name.removeprefix(PREFIX), rests, n=1, cutoff=0.8)
    cure = f"did you mean {PREFIX}{close[0]}?" if close else "remove it, or look the name up in the README."
    return f"{name} is no setting of outbox-admin; {cure}"
