"""A small certificate authority, and the server certificates that a mail client meets.

Everything is made anew for each test session and thrown away with it. No key is ever stored
outside the folder that is given.
"""

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)
Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """Certificate and key as files."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """What a server shows its clients."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


class Authority:
    """Issues certificates. `ca_file` is what a client must trust to accept the good one."""

    def __init__(self, folder: Path, name: str = "Outbox Test Authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.certificate = _sign(_ca_builder(self._name, self._key), self._key)
        self.ca_file = folder / f"{name.lower().replace(' ', '-')}.pem"
        self.ca_file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    @cached_property
    def good(self) -> ServerCertificate:
        """For localhost and 127.0.0.1."""
        return self.issue("good")

    @cached_property
    def wrong_host(self) -> ServerCertificate:
        return self.issue("wrong-host", host="elsewhere.example", address=None)

    @cached_property
    def expired(self) -> ServerCertificate:
        """Valid until yesterday."""
        return self.issue("expired", days=(-30, -1))

    @cached_property
    def self_signed(self) -> ServerCertificate:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _server_builder(_name("localhost"), key, "localhost", "127.0.0.1", (-1, 30))
        return self._store("self-signed", _sign(builder.issuer_name(_name("localhost")), key), key)

    @cached_property
    def unknown_authority(self) -> ServerCertificate:
        """In order in every way, but issued by an authority that nobody trusts."""
        return Authority(self._folder, "Unknown Authority").issue("unknown-authority")

    def issue(
        self,
        label: str,
        *,
        host: str = "localhost",
        address: str | None = "127.0.0.1",
        days: tuple[int, int] = (-1, 30),
    ) -> ServerCertificate:
        """`days` says from when to when it is valid, counted from today."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _server_builder(_name(host), key, host, address, days).issuer_name(self._name)
        return self._store(label, _sign(builder, self._key), key)

    def _store(self, label: str, certificate: x509.Certificate, key: Key) -> ServerCertificate:
        files = ServerCertificate(self._folder / f"{label}.pem", self._folder / f"{label}.key")
        files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files.key.touch(mode=0o600)
        files.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, key: Key, days: tuple[int, int]) -> x509.CertificateBuilder:
    today = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today + days[0] * DAY)
        .not_valid_after(today + days[1] * DAY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _ca_builder(name: x509.Name, key: Key) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = _builder(name, key, (-60, 60)).issuer_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.add_extension(usage, critical=True)


def _server_builder(
    subject: x509.Name, key: Key, host: str, address: str | None, days: tuple[int, int]
) -> x509.CertificateBuilder:
    names: list[x509.GeneralName] = [x509.DNSName(host)]
    if address is not None:
        names.append(x509.IPAddress(ipaddress.ip_address(address)))
    builder = _builder(subject, key, days)
    return builder.add_extension(x509.SubjectAlternativeName(names), critical=False)


def _sign(builder: x509.CertificateBuilder, key: Key) -> x509.Certificate:
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    return builder.add_extension(authority, critical=False).sign(key, hashes.SHA256())
