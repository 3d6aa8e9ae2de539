"""Sets up a checkout and runs it, with nothing but the standard library.

    python3 dev.py demo [options of `outbox-admin demo`]
    python3 dev.py test [--browser] [options of pytest]    over the cores (-n 0: in turn)
                                                           --browser: install Chromium (Debian, as root)
    python3 dev.py check                                   the gates: lint, types, templates, spelling, rooms
    python3 dev.py lock                                    write requirements.lock anew, newest versions (needs uv)

The first run makes .venv from requirements.lock, whose hashes are checked; later runs only when the
lock or the packaging changed. uv is used where it is on PATH. No index is named here: pip's own
configuration decides, and is passed on to uv. Nothing outside this folder is changed, except that
--browser installs Chromium.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "outbox-admin.stamp"
LOCK = ROOT / "requirements.lock"
HTMX = ROOT / "static" / "vendor" / "htmx.min.js"
STAMPED = (LOCK, ROOT / "pyproject.toml", ROOT / "hatch_build.py")
SPREAD = ("-n", "auto", "--maxprocesses", "4", "--dist", "worksteal")  #: what the caller says wins
GATES = ("tests/test_gates.py", "tests/test_architecture.py")
COMPILE = (
    *("pip", "compile", "pyproject.toml", "--universal", "--python-version", "3.11"),
    *("--group", "test", "--extra", "server", "--generate-hashes", "--no-header", "--quiet"),
)
BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
#: What pip calls it, what uv calls it.
PASSED_ON = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
#: A side index may hold one file of a release only, and the lock would know no other's hash.
SIDE_SOURCES = ("UV_INDEX", "UV_FIND_LINKS", "UV_INDEX_STRATEGY")


def main(arguments: list[str]) -> int:
    commands = {"demo": demo, "test": test, "check": check, "lock": lock}
    if not arguments or arguments[0] not in commands:
        print(__doc__)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    if sys.version_info < OLDEST:
        return refuse(
            "outbox-admin needs Python 3.11 or newer and this is %d.%d: install a newer one "
            "and call it by name, for instance `python3.11 dev.py %s`."
            % (*sys.version_info[:2], arguments[0])
        )
    os.chdir(ROOT)
    return commands[arguments[0]](arguments[1:])


def demo(arguments: list[str]) -> int:
    return prepare() or run_in_place([str(VENV / "bin" / "outbox-admin"), "demo", *arguments])


def test(arguments: list[str]) -> int:
    rest = [argument for argument in arguments if argument != "--browser"]
    problem = install_chromium() if rest != arguments else 0
    return problem or prepare() or run_in_place([str(PYTHON), "-m", "pytest", *SPREAD, *rest])


def check(arguments: list[str]) -> int:
    return prepare() or run_in_place([str(PYTHON), "-m", "pytest", *GATES, *arguments])


def lock(arguments: list[str]) -> int:
    uv = shutil.which("uv")
    if uv is None:
        return refuse("only uv writes a lock without host names: `python3 -m pip install uv`, then again.")
    environment = uv_environment()
    for name in SIDE_SOURCES:
        environment.pop(name, None)
    fresh = LOCK.with_suffix(".new")  # beside the old one, whose hashes uv would take over unasked
    code = subprocess.call([uv, *COMPILE, "--output-file", fresh.name, *arguments], env=environment)
    if code == 0:
        fresh.replace(LOCK)
    return code


def prepare() -> int:
    """0 when .venv is what the lock says; else an exit code, the reason printed."""
    wanted = fingerprint()
    if PYTHON.exists() and HTMX.exists() and STAMP.exists() and STAMP.read_text() == wanted:
        return 0
    say("Setting up .venv from requirements.lock; this is done once.")
    discard_foreign_venv()
    problem = install()
    if not problem:
        STAMP.write_text(wanted)
    return problem


def fingerprint() -> str:
    """First line: what .venv was made for. Second line: what was installed into it."""
    digest = hashlib.sha256()
    for file in STAMPED:
        digest.update(file.read_bytes())
    return "%d.%d %s\n%s" % (*sys.version_info[:2], ROOT, digest.hexdigest())


def discard_foreign_venv() -> None:
    """A virtual environment of another Python or another place cannot be brought up to date."""
    if STAMP.exists() and STAMP.read_text().splitlines()[:1] != fingerprint().splitlines()[:1]:
        shutil.rmtree(VENV)


def install() -> int:
    uv = shutil.which("uv")
    if uv is not None:
        if install_with_uv(uv) == 0:
            return 0
        say("uv could not do it; trying pip.")
    return install_with_pip()


def install_with_uv(uv: str) -> int:
    pip = [uv, "pip", "install", "--python", str(PYTHON), "--quiet", "--no-deps"]
    create = [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(VENV)]
    return run_all(create, *into_venv(pip), env=uv_environment())


def install_with_pip() -> int:
    if find_spec("ensurepip") is not None:
        create = [sys.executable, "-m", "venv", str(VENV)]
        pip = [str(PYTHON), "-m", "pip"]
    elif find_spec("pip") is not None:
        create = [sys.executable, "-m", "venv", "--without-pip", str(VENV)]
        pip = [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    else:
        return refuse(
            "this Python has neither pip nor ensurepip: `apt-get install python3-venv` on Debian, "
            "or put uv on the PATH, then run this again."
        )
    quietly = [*pip, "install", "-qq", "--disable-pip-version-check", "--no-deps"]
    return run_all(create, *into_venv(quietly), env=dict(os.environ))


def into_venv(install_command: list[str]) -> tuple[list[str], list[str]]:
    """Two calls: an editable install cannot join a command whose hashes are checked."""
    return (
        [*install_command, "--require-hashes", "-r", str(LOCK)],
        [*install_command, "-e", str(ROOT)],
    )


def uv_environment() -> dict[str, str]:
    """uv reads none of pip's settings, so that they are given to it; its own settings win."""
    environment = dict(os.environ)
    for setting, value in pip_settings().items():
        if setting in PASSED_ON:
            usable = [word for word in value.split() if not is_missing_folder(word)]
            environment.setdefault(PASSED_ON[setting], separator(setting).join(usable))
    if environment.get("UV_INDEX"):
        # pip looks at all indexes alike; the hashes in the lock make that safe.
        environment.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    return {name: value for name, value in environment.items() if value or name not in PASSED_ON.values()}


def separator(setting: str) -> str:
    return "," if setting == "find-links" else " "


def is_missing_folder(place: str) -> bool:
    """pip only warns about a local place that does not exist; uv stops."""
    if place.startswith("file:"):
        place = place[len("file:") :]
        place = "/" + place.lstrip("/")
    return place.startswith("/") and not Path(place).exists()


def pip_settings() -> dict[str, str]:
    """pip's configuration by name; what stands later in pip's list is the stronger source."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    order = ("global", "user", "site", "install", ":env:")
    found = []
    for line in listed.stdout.decode(errors="replace").splitlines():
        name, _, value = line.partition("=")
        scope, _, setting = name.rpartition(".")
        if scope in order and value[:1] in "'\"":
            found.append((order.index(scope), setting, ast.literal_eval(value)))
    return {setting: value for _, setting, value in sorted(found)}


def find_chromium() -> str | None:
    return next((path for path in map(shutil.which, BROWSERS) if path is not None), None)


def install_chromium() -> int:
    if find_chromium() is not None:
        return 0
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return refuse(
            "no Chromium found, and --browser installs it only on Debian as root: install it yourself."
        )
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    package = [apt, "install", "--yes", "--quiet", "--no-install-recommends", "chromium"]
    return run_all([apt, "update", "--quiet"], package, env=environment)


def run_all(*commands: list[str], env: dict[str, str]) -> int:
    """Runs them in order and stops at the first that fails; gives its exit code."""
    for command in commands:
        code = subprocess.call(command, env=env, stdin=subprocess.DEVNULL)
        if code != 0:
            return code
    return 0


def run_in_place(command: list[str]) -> NoReturn:
    """Becomes the command, so that its signals and exit code are its own."""
    sys.stdout.flush()
    os.execv(command[0], command)


def say(sentence: str) -> None:
    print(sentence, flush=True)


def refuse(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
