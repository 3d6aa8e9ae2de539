"""Where templates/ and static/ lie: inside an installed wheel, or beside the package in a checkout.

Only paths here. Never `importlib.resources`: an editable install leaves a stale copy where that looks.
"""

from pathlib import Path

from outbox_admin.errors import ConfigurationError

NAMES = ("templates", "static")
_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder `templates` or `static`; the packaged one where there is one."""
    if name not in NAMES:
        raise ValueError(f"no asset folder is called {name!r}: {', '.join(NAMES)}")
    for candidate in (_PACKAGE / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise ConfigurationError(f"the folder {name}/ is missing from this installation of outbox-admin")
