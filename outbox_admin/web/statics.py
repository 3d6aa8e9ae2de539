"""Style sheet and scripts under names that change with their content, so that browsers keep them for a year."""

from __future__ import annotations

import hashlib
from pathlib import Path

from outbox_admin import assets

SUFFIXES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


class Statics:
    """Knows each file's digest. Only what lies in the folder at the start is ever served."""

    def __init__(self) -> None:
        root = assets.folder("static")
        self._files = {
            path.relative_to(root).as_posix(): path
            for path in root.rglob("*")
            if path.is_file() and path.suffix in SUFFIXES
        }
        self._digests = {name: _digest(path) for name, path in self._files.items()}

    def digest(self, name: str) -> str:
        return self._digests[name]

    def find(self, digest: str, name: str) -> Path | None:
        return self._files[name] if self._digests.get(name) == digest else None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
