"""Where the key ring is: a file, a credential of systemd, or a variable of the environment. Opens no ring."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import NamedTuple

_VARIABLE, _CREDENTIAL = "env:", "cred:"
_FOLDER = "CREDENTIALS_DIRECTORY"  #: systemd sets it for services with LoadCredential=


class RingSource(NamedTuple):
    """``text`` is the ring itself where it comes from a variable: a secret."""

    source: str
    text: str | None = None


def variable_of(source: str | None) -> str | None:
    """The variable that ``env:NAME`` names; None for every other source."""
    return source.removeprefix(_VARIABLE) if source and source.startswith(_VARIABLE) else None


def find(source: str, environ: Mapping[str, str]) -> RingSource:
    """``env:NAME`` with its text, ``cred:NAME`` as the file that it stands for, and files as they are.

    Raises ValueError with what is missing, never with a value.
    """
    if variable := variable_of(source):
        if not environ.get(variable):
            raise ValueError(f"names the variable {variable}, which is not set")
        return RingSource(source, environ[variable])
    if not source.startswith(_CREDENTIAL):
        return RingSource(source)
    name, folder = source.removeprefix(_CREDENTIAL), environ.get(_FOLDER)
    if not folder:
        raise ValueError(
            f"names a credential, but {_FOLDER} is not set; start it by systemd with LoadCredential="
        )
    if PurePath(name).name != name:
        raise ValueError("names a credential by a path; give its name alone, as in cred:outbox-ring")
    return RingSource(f"file:{PurePath(folder) / name}")
