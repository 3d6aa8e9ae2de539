"""A second SMTP server that is not ours: aiosmtpd with STARTTLS and AUTH, in a thread.

It accepts and keeps; it is not scripted. The scripted relay is tests/support/relay.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.support.certificates import ServerCertificate
from tests.support.ports import HOST, free_port


@dataclass(frozen=True, slots=True)
class Received:
    """One accepted message, its octets as they came (dot-unstuffed)."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes
    tls: bool
    login: str | None


@dataclass  # without slots: aiosmtpd inspects it, and Python 3.11.2 cannot inspect a slotted one
class SmtpPeer:
    """`refuse_recipients` maps an address to the reply it gets, for instance `550 5.1.1 unknown`."""

    port: int
    ca_file: Path
    host: str = HOST
    username: str = "outbox"
    password: str = "correct horse"
    received: list[Received] = field(default_factory=list)
    refuse_recipients: dict[str, str] = field(default_factory=dict)

    def url(self, scheme: str = "smtp") -> str:
        password = self.password.replace(" ", "%20")
        return f"{scheme}://{self.username}:{password}@{self.host}:{self.port}"

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, login: object
    ) -> AuthResult:
        """aiosmtpd's authenticator."""
        expected = LoginPassword(self.username.encode(), self.password.encode())
        if login != expected:
            return AuthResult(success=False, handled=False)
        return AuthResult(success=True, auth_data=self.username)

    async def handle_RCPT(  # noqa: N802 - aiosmtpd looks for this name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refuse_recipients:
            return self.refuse_recipients[address]
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 2.1.5 OK"

    async def handle_DATA(  # noqa: N802 - aiosmtpd looks for this name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        content = envelope.original_content or b""
        login = str(session.auth_data) if session.authenticated else None
        recipients = tuple(envelope.rcpt_tos)
        encrypted = session.ssl is not None
        self.received.append(Received(envelope.mail_from or "", recipients, content, encrypted, login))
        return f"250 2.0.0 OK queued as PEER{len(self.received)}"


@contextmanager
def running_peer(certificate: ServerCertificate, ca_file: Path) -> Iterator[SmtpPeer]:
    """Requires TLS before AUTH, and AUTH before MAIL."""
    peer = SmtpPeer(free_port(), ca_file)
    controller = Controller(
        peer,
        hostname=HOST,
        port=peer.port,
        server_hostname="peer.example",
        tls_context=certificate.context(),
        require_starttls=True,
        auth_required=True,
        authenticator=peer.authenticate,
    )
    controller.start()
    try:
        yield peer
    finally:
        controller.stop()
