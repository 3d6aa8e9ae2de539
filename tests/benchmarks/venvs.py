"""An environment of its own for each peer, made on first use, with the versions that the figures were measured with.

They lie under the user's cache folder (``BENCH_CACHE`` names another) and are made by pip as it is configured.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

PINNED: dict[str, tuple[str, ...]] = {
    "django-post-office": ("django-post_office==3.12.0", "Django==5.2.19", "psycopg[binary]==3.3.9"),
    "pgqueuer": ("pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"),
    "smtplib": ("psycopg[binary]==3.3.9",),
}


def cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("BENCH_CACHE") or Path(home) / "outbox-admin-benchmarks")


def python_of(peer: str) -> Path:
    """Its interpreter. A change of the pinned versions makes another environment."""
    wanted = PINNED[peer]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    mark = hashlib.sha256(" ".join((version, *wanted)).encode()).hexdigest()[:8]
    folder = cache() / f"{peer}-{mark}"
    ready, python = folder / "ready", folder / "bin" / "python"
    if not ready.exists():
        print(f"making an environment for {peer}: {' '.join(wanted)}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        command = [python, "-m", "pip", "install", "--quiet", *wanted]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"pip could not install {' '.join(wanted)}:\n{done.stderr}")
        ready.touch()
    return python
