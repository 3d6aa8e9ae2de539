"""A real Postfix on the loopback address, with its own configuration, queue and mailboxes.

Submission as providers demand it: STARTTLS first, then AUTH, then mail. Accepted mail lands in a Maildir. Needs
Debian's package and root; nothing of the machine's own Postfix is touched.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USER = "outbox"
PASSWORD = "correct horse"
REFUSED = "refused@example.com"
REFUSAL = f"check_recipient_access inline:{{ {{ {REFUSED} = 550 5.1.1 no such mailbox }} }}"
SERVICES = """\
127.0.0.1:{port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
tlsmgr unix - - n 1000? 1 tlsmgr
proxymap unix - - n - - proxymap
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
virtual unix - n n - - virtual
error unix - - n - - error
retry unix - - n - - error
postlog unix-dgram n - n - 1 postlogd
"""
SETTINGS = """\
compatibility_level = 3.6
queue_directory = {home}/queue
data_directory = {home}/data
maillog_file = {home}/log/mail.log
maillog_file_prefixes = {home}
myhostname = mail.example.com
mydestination =
inet_protocols = ipv4
mynetworks =
virtual_mailbox_domains = example.com
virtual_mailbox_base = {home}/mail
virtual_mailbox_maps = static:all/
virtual_uid_maps = static:{uid}
virtual_gid_maps = static:{gid}
virtual_alias_maps =
alias_maps =
smtpd_tls_security_level = encrypt
smtpd_tls_auth_only = yes
smtpd_tls_cert_file = {home}/conf/cert.pem
smtpd_tls_key_file = {home}/conf/key.pem
smtpd_sasl_auth_enable = yes
smtpd_sasl_local_domain = mail.example.com
smtpd_client_restrictions = permit_sasl_authenticated, reject
smtpd_relay_restrictions = permit_sasl_authenticated, reject
smtpd_recipient_restrictions = {refusal}, permit_sasl_authenticated, reject
"""
PASSWORDS = """\
pwcheck_method: auxprop
auxprop_plugin: sasldb
sasldb_path: {home}/conf/sasldb2
mech_list: PLAIN LOGIN
"""


def missing() -> str | None:
    """Why Postfix cannot run here, or None."""
    if os.geteuid() != 0:
        return "Postfix needs root to start"
    for program in ("postfix", "saslpasswd2"):
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
            return f"no {program} found: apt-get install postfix sasl2-bin libsasl2-modules"
    return None


@dataclass(frozen=True, slots=True)
class Postfix:
    """A running server: ``host`` and ``port`` of its submission service, and what it delivered."""

    host: str
    port: int
    home: Path

    def mails(self, *, count: int, within: float = 60.0) -> list[bytes]:
        """The contents of the mailbox once it holds ``count`` messages, as Postfix wrote them (LF line ends)."""
        give_up = time.monotonic() + within
        while True:
            found = sorted((self.home / "mail" / "all" / "new").glob("*"))
            if len(found) >= count:
                return [path.read_bytes() for path in found]
            if time.monotonic() > give_up:
                raise TimeoutError(f"{len(found)} of {count} mails arrived; log:\n{self.log()}")
            time.sleep(0.05)

    def log(self) -> str:
        """What Postfix logged so far."""
        path = self.home / "log" / "mail.log"
        return path.read_text(errors="replace") if path.exists() else ""


@contextmanager
def running(certificate: bytes, key: bytes) -> Iterator[Postfix]:
    """Postfix with this PEM certificate and key, for as long as the block lasts."""
    home = Path(tempfile.mkdtemp(prefix="outbox-postfix-"))
    try:
        port = _free_port()
        _prepare(home, port, certificate, key)
        master = subprocess.Popen(
            [_program("postfix"), "-c", str(home / "conf"), "start-fg"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _wait_for_banner(port, master)
            yield Postfix("127.0.0.1", port, home)
        finally:
            subprocess.run(
                [_program("postfix"), "-c", str(home / "conf"), "stop"],
                capture_output=True,
                check=False,
            )
            _end(master)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _prepare(home: Path, port: int, certificate: bytes, key: bytes) -> None:
    home.chmod(0o755)
    owner = pwd.getpwnam("postfix")
    nobody = pwd.getpwnam("nobody")
    for name in ("conf", "conf/sasl", "queue", "data", "mail", "log"):
        (home / name).mkdir()
    os.chown(home / "data", owner.pw_uid, owner.pw_gid)
    os.chown(home / "mail", nobody.pw_uid, nobody.pw_gid)
    conf = home / "conf"
    values = {
        "home": home,
        "uid": nobody.pw_uid,
        "gid": nobody.pw_gid,
        "refusal": REFUSAL,
    }
    (conf / "main.cf").write_text(SETTINGS.format(**values))
    (conf / "master.cf").write_text(SERVICES.format(port=port))
    (conf / "sasl" / "smtpd.conf").write_text(PASSWORDS.format(**values))
    (conf / "cert.pem").write_bytes(certificate)
    (conf / "key.pem").write_bytes(key)
    (conf / "key.pem").chmod(0o600)
    subprocess.run(
        [
            _program("saslpasswd2"),
            "-p",
            "-c",
            "-f",
            str(conf / "sasldb2"),
            "-u",
            "mail.example.com",
            USER,
        ],
        input=PASSWORD.encode(),
        check=True,
        capture_output=True,
    )
    os.chown(conf / "sasldb2", owner.pw_uid, owner.pw_gid)


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        raise FileNotFoundError(name)
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for_banner(port: int, master: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up and master.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
                if line.recv(200).startswith(b"220"):
                    return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"Postfix did not come up on port {port} (exit {master.poll()})")


def _end(master: subprocess.Popen[bytes]) -> None:
    try:
        master.wait(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(master.pid, signal.SIGKILL)
        master.wait()
