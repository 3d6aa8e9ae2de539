"""What ships: the sdist, and the wheel that is built from it."""

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.source import ROOT, committed_files

pytestmark = pytest.mark.slow

HTMX = "outbox_admin/static/vendor/htmx.min.js"
#: htmx 2.0.10
HTMX_SHA256 = "71ea67185bfa8c98c39d31717c6fce5d852370fcdfd129db4543774d3145c0de"


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> zipfile.ZipFile:
    (file,) = distributions.glob("*.whl")
    return zipfile.ZipFile(file)


@pytest.fixture(scope="module")
def sdist_names(distributions: Path) -> set[str]:
    (file,) = distributions.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def shipped(folder: str) -> set[str]:
    return {name for name in committed_files() if name.startswith(f"{folder}/")}


def test_the_wheel_holds_the_package_its_pages_and_its_static_files(wheel: zipfile.ZipFile) -> None:
    wanted = shipped("outbox_admin")
    wanted |= {f"outbox_admin/{name}" for name in shipped("templates") | shipped("static")}
    assert wanted <= set(wheel.namelist())


def test_the_wheel_holds_htmx_as_pinned(wheel: zipfile.ZipFile) -> None:
    assert hashlib.sha256(wheel.read(HTMX)).hexdigest() == HTMX_SHA256


def test_the_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    assert {name.split("/")[0] for name in wheel.namelist()} == {
        "outbox_admin",
        "outbox_admin-0.1.0.dist-info",
    }


def test_the_wheel_brings_the_command(wheel: zipfile.ZipFile) -> None:
    entry_points = wheel.read("outbox_admin-0.1.0.dist-info/entry_points.txt").decode()
    assert "outbox-admin = outbox_admin.cli:main" in entry_points


def test_the_sdist_holds_what_is_committed_and_htmx(sdist_names: set[str]) -> None:
    hidden = {name for name in committed_files() if name.startswith(".")}
    assert set(committed_files()) - hidden <= sdist_names
    assert "static/vendor/htmx.min.js" in sdist_names


def test_the_sdist_holds_no_environment_and_no_cache(sdist_names: set[str]) -> None:
    assert [name for name in sdist_names if ".venv" in name or "__pycache__" in name] == []
