"""dev.py: what it refuses, what it passes on, when it sets up anew. Its real run is the test command itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dev
from tests.support.source import ROOT


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """pip's settings as dev.py sees them; none of uv's own are set."""
    for name in (*dev.PASSED_ON.values(), "UV_INDEX_STRATEGY"):
        monkeypatch.delenv(name, raising=False)
    found: dict[str, str] = {}
    monkeypatch.setattr(dev, "pip_settings", lambda: found)
    return found


def test_an_old_python_gets_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    assert dev.main(["demo"]) == 1
    said = capsys.readouterr().err
    assert "needs Python 3.11 or newer and this is 3.9" in said
    assert len(said.splitlines()) == 1


def test_a_python_without_pip_gets_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dev, "find_spec", lambda name: None)
    assert dev.install_with_pip() == 1
    said = capsys.readouterr().err
    assert "apt-get install python3-venv" in said
    assert len(said.splitlines()) == 1


def test_tests_are_spread_over_the_cores_and_the_callers_options_win(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(dev, "prepare", lambda: 0)
    monkeypatch.setattr(dev, "run_in_place", ran.extend)
    dev.test(["-x", "-n", "0"])
    assert ran == [str(dev.PYTHON), "-m", "pytest", *dev.SPREAD, "-x", "-n", "0"]


def test_one_test_after_the_other_needs_no_second_process(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text("import os\ndef test_it():\n    assert 'PYTEST_XDIST_WORKER' not in os.environ\n")
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, *dev.SPREAD, "-n", "0", str(file)]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=120)
    assert run.returncode == 0, run.stdout


def test_without_ensurepip_the_pip_outside_fills_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(dev, "find_spec", lambda name: None if name == "ensurepip" else object())
    monkeypatch.setattr(dev, "run_all", lambda *commands, env: ran.extend(commands) or 0)
    assert dev.install_with_pip() == 0
    assert "--without-pip" in ran[0]
    assert all(command[1:5] == ["-m", "pip", "--python", str(dev.PYTHON)] for command in ran[1:])


def test_every_package_is_installed_with_its_hash() -> None:
    locked, own = dev.into_venv(["install", "--no-deps"])
    assert locked[:3] == ["install", "--no-deps", "--require-hashes"]
    assert own == ["install", "--no-deps", "-e", str(ROOT)]


def test_uv_is_given_what_pip_is_configured_with(settings: dict[str, str], tmp_path: Path) -> None:
    settings |= {
        "index-url": "index:main",
        "extra-index-url": f"file://{tmp_path}",
        "find-links": str(tmp_path),
    }
    environment = dev.uv_environment()
    assert environment["UV_DEFAULT_INDEX"] == "index:main"
    assert environment["UV_INDEX"] == f"file://{tmp_path}"
    assert environment["UV_FIND_LINKS"] == str(tmp_path)
    assert environment["UV_INDEX_STRATEGY"] == "unsafe-best-match"


def test_a_local_index_that_does_not_exist_is_left_out(settings: dict[str, str], tmp_path: Path) -> None:
    settings["extra-index-url"] = f"file://{tmp_path}/gone file:///{tmp_path}/gone/too"
    environment = dev.uv_environment()
    assert "UV_INDEX" not in environment
    assert "UV_INDEX_STRATEGY" not in environment


def test_settings_of_uv_itself_win(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    settings["index-url"] = "index:pip"
    monkeypatch.setenv("UV_DEFAULT_INDEX", "index:uv")
    assert dev.uv_environment()["UV_DEFAULT_INDEX"] == "index:uv"


def test_the_stronger_source_of_a_pip_setting_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = (
        b":env:.index-url='index:environment'\nglobal.index-url='index:file'\nuser.timeout='9'\nnonsense\n"
    )
    done = subprocess.CompletedProcess([], 0, stdout=listed)
    monkeypatch.setattr(dev.subprocess, "run", lambda *a, **k: done)
    assert dev.pip_settings() == {"index-url": "index:environment", "timeout": "9"}


def test_an_environment_is_made_anew_only_when_what_it_is_made_from_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[str] = []
    monkeypatch.setattr(dev, "VENV", tmp_path)
    monkeypatch.setattr(dev, "STAMP", tmp_path / "stamp")
    monkeypatch.setattr(dev, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(dev, "HTMX", Path(sys.executable))
    monkeypatch.setattr(dev, "install", lambda: made.append("made") or 0)
    assert [dev.prepare(), dev.prepare(), len(made)] == [0, 0, 1]
    monkeypatch.setattr(dev, "STAMPED", (Path(__file__),))
    assert [dev.prepare(), len(made)] == [0, 2]


def test_a_failed_set_up_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dev, "STAMP", tmp_path / "stamp")
    monkeypatch.setattr(dev, "install", lambda: 3)
    assert dev.prepare() == 3
    assert not dev.STAMP.exists()


def test_an_environment_of_another_place_is_thrown_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dev, "VENV", tmp_path / "venv")
    monkeypatch.setattr(dev, "STAMP", tmp_path / "venv" / "stamp")
    dev.VENV.mkdir()
    dev.STAMP.write_text("3.11 elsewhere\nhash")
    dev.discard_foreign_venv()
    assert not dev.VENV.exists()


def test_an_unknown_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main(["deploy"]) == 2
    assert "dev.py test [--browser]" in capsys.readouterr().out
