"""Puts htmx into static/vendor/ before a wheel, sdist or editable install is made.

The file comes out of a build requirement and is taken only if its SHA-256 is the pinned one: build
requirements are not hash-checked, so the pin stands in for that. Nothing else is generated here.
"""

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: htmx 2.0.10; the 4.x file beside it in the same distribution is a beta.
HTMX_SHA256 = "71ea67185bfa8c98c39d31717c6fce5d852370fcdfd129db4543774d3145c0de"
CARRIER = ("static", "django_htmx", "htmx-2.min.js")
TARGET = ("static", "vendor", "htmx.min.js")


class FetchHtmx(BuildHookInterface):
    """Hatchling's custom build hook."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Runs before the files of the distribution are collected."""
        target = Path(self.root).joinpath(*TARGET)
        if target.is_file() and is_pinned(target.read_bytes()):
            return
        content = carried_file().read_bytes()
        if not is_pinned(content):
            raise RuntimeError("htmx.min.js is not the pinned version 2.0.10: SHA-256 differs")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def is_pinned(content: bytes) -> bool:
    return hashlib.sha256(content).hexdigest() == HTMX_SHA256


def carried_file() -> Path:
    """Found without importing the carrier, which would import its framework."""
    spec = find_spec("django_htmx")
    if spec is None or spec.origin is None:
        raise RuntimeError("the build requirement that carries htmx is not installed")
    return Path(spec.origin).parent.joinpath(*CARRIER)
