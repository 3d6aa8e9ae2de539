"""The folders of pages and of static files are found in a checkout and in an installed wheel."""

from pathlib import Path

import pytest

from outbox_admin import assets
from outbox_admin.errors import ConfigurationError
from tests.support.source import ROOT


@pytest.mark.parametrize("name", assets.NAMES)
def test_a_checkout_uses_its_own_folders(name: str) -> None:
    assert assets.folder(name) == ROOT / name


def test_the_packaged_folder_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "outbox_admin"
    (package / "templates").mkdir(parents=True)
    (tmp_path / "templates").mkdir()
    monkeypatch.setattr(assets, "_PACKAGE", package)
    assert assets.folder("templates") == package / "templates"


def test_a_missing_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "_PACKAGE", tmp_path / "outbox_admin")
    with pytest.raises(ConfigurationError, match="static/ is missing"):
        assets.folder("static")


def test_other_names_are_refused() -> None:
    with pytest.raises(ValueError, match="templates, static"):
        assets.folder("secrets")
