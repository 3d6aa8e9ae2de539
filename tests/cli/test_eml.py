"""``enqueue --eml``: every mail file through command line, database and worker to the relay, and compared there.

Octet by octet where the file is fit for any relay; else the fields and decoded parts that another parser finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes
from email.utils import getaddresses
from pathlib import Path

import pytest
import sqlalchemy as sa

from outbox_admin.db.schema import email_outbox
from outbox_admin.demo.relay import Catcher, Caught
from tests.cli.conftest import Shell
from tests.support import mail
from tests.support.relay import Relay

REFUSED = {
    "signed-eight-bit.eml": "message: is signed, and a signed part would have to be encoded anew; sign 7-bit parts",
    "dkim-bcc.eml": "message: carries a DKIM-Signature and would have to be changed; let the relay sign it",
}
FILES = sorted(path.name for path in mail.MAILS.glob("*.eml") if path.name not in REFUSED)
OCTET_BY_OCTET = {
    "attachments.eml",
    "dkim.eml",
    "encoded-subject.eml",
    "groups.eml",
    "plain.eml",
    "signed.eml",
}
_ADDRESSES = {"from", "sender", "to", "cc", "reply-to"}
_OURS_TO_CHANGE = {"bcc", "resent-bcc", "content-transfer-encoding", "content-type", "mime-version"}


@pytest.fixture
def relay(shell: Shell) -> Iterator[Catcher]:
    with Catcher() as running:
        to_relay(shell, running.port)
        yield running


def to_relay(shell: Shell, port: int) -> None:
    shell.environ |= {"OUTBOX_SMTP_URL": f"smtp://127.0.0.1:{port}", "OUTBOX_SMTP_TLS": "none"}


def given(name: str) -> bytes:
    return (mail.MAILS / name).read_bytes()


def passed_on(shell: Shell, relay: Catcher, file: Path, *more: str) -> Caught:
    shell("enqueue", "--eml", str(file), "--key", "mail:1", *more)
    shell("worker", "--drain", "--lanes", "1")
    return relay.messages[-1]


def test_a_mail_file_may_be_attached_as_any_other_file(shell: Shell, relay: Catcher) -> None:
    file = mail.MAILS / "encoded-subject.eml"
    text = ("--subject", "s", "--text", f"@{file}", "--attach", str(file))
    shell("enqueue", "--to", "jane@customer.example", "--key", "mail:1", *text)
    shell("worker", "--drain", "--lanes", "1")
    sent = message_from_bytes(relay.messages[-1].content)
    [attached] = [part for part in sent.walk() if part.get_filename() == file.name]
    assert attached.get_content_type() == "application/octet-stream"
    assert attached.get_payload(decode=True) == file.read_bytes()


def fields(content: bytes) -> dict[str, object]:
    """By name: text decoded, addresses as pairs with their domain in A-labels."""
    content = re.sub(rb"\r\n|\r|\n", b"\r\n", content).removeprefix(b"From ")
    if not re.match(rb"[A-Za-z-]+:", content):
        content = content.partition(b"\r\n")[2]  # what an mbox file puts before a message
    found: dict[str, object] = {}
    for name, value in mail.raw_fields(content):
        if name.lower() in _ADDRESSES:
            pairs = getaddresses([value])
            found[name.lower()] = [(mail.decoded(shown), in_labels(address)) for shown, address in pairs]
        elif name.lower() not in _OURS_TO_CHANGE:
            found[name.lower()] = " ".join(mail.decoded(value).split())
    return found


def in_labels(address: str) -> str:
    local, at, domain = address.partition("@")
    return local + at + domain.encode("idna").decode()


@pytest.mark.parametrize("name", FILES)
def test_a_mail_file_arrives_as_it_was_given(shell: Shell, relay: Catcher, name: str) -> None:
    caught = passed_on(shell, relay, mail.MAILS / name, "--to", mail.JANE)
    assert caught.recipients == (mail.JANE,)
    mail.assert_proper_lines(caught.content)
    assert caught.content.isascii()
    if name in OCTET_BY_OCTET:
        assert caught.content == given(name)
    expected, arrived = fields(given(name)), fields(caught.content)
    assert expected == {key: arrived[key] for key in expected}
    assert arrived.keys() - expected.keys() <= {"date", "message-id"}
    assert {"date", "message-id"} <= arrived.keys()
    if name not in ("mbox.eml", "eight-bit-undeclared.eml"):
        assert mail.leaves(caught.content) == mail.leaves(given(name))


def test_what_may_arrive_octet_by_octet_is_all_that_is_fit() -> None:
    """The list above is no selection: seven bits, proper lines, Date and Message-ID, nothing hidden."""
    fit = {name for name in FILES if is_fit(given(name))}
    assert fit == OCTET_BY_OCTET


def is_fit(content: bytes) -> bool:
    names = {name.lower() for name, _ in mail.raw_fields(content)} if b"\r\n\r\n" in content else set()
    crlf = content.count(b"\r\n")
    return (
        content.isascii()
        and content.count(b"\r") == content.count(b"\n") == crlf
        and max(map(len, content.split(b"\r\n"))) <= 998
        and {"date", "message-id"} <= names
        and not names & {"bcc", "resent-bcc"}
    )


@pytest.mark.parametrize("name", ["mbox.eml", "eight-bit-undeclared.eml"])
def test_text_that_says_little_of_itself_arrives(shell: Shell, relay: Catcher, name: str) -> None:
    caught = passed_on(shell, relay, mail.MAILS / name, "--to", mail.JANE)
    body = given(name).replace(b"\r\n", b"\n").partition(b"\n\n")[2].decode()
    assert mail.text_part(caught.content) == mail.with_crlf(body)


@pytest.mark.parametrize("name", sorted(OCTET_BY_OCTET))
def test_a_file_stored_with_line_feeds_arrives_the_same(
    shell: Shell, relay: Catcher, tmp_path: Path, name: str
) -> None:
    stored = tmp_path / "stored.eml"
    stored.write_bytes(given(name).replace(b"\r\n", b"\n"))
    assert passed_on(shell, relay, stored, "--to", mail.JANE).content == given(name)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_signed_mail_that_would_have_to_change_is_refused_in_a_sentence(
    shell: Shell, engine: sa.Engine, name: str
) -> None:
    result = shell("enqueue", "--eml", str(mail.MAILS / name), "--to", mail.JANE, "--key", "k", code=1)
    assert result.stderr == f"outbox-admin: {REFUSED[name]}\n"
    assert result.stdout == ""
    with engine.connect() as db:
        assert db.execute(sa.select(sa.func.count()).select_from(email_outbox)).scalar_one() == 0


def test_hidden_recipients_get_the_mail_and_nobody_reads_their_names(shell: Shell, relay: Catcher) -> None:
    shell("enqueue", "--eml", str(mail.MAILS / "bcc.eml"), "--key", "mail:1")
    shell("worker", "--drain", "--lanes", "1")
    recipients = [caught.recipients for caught in relay.messages]
    assert recipients == [
        ("jane@example.com",),
        ("carl@example.com",),
        ("boss@example.com",),
        ("audit@example.com",),
    ]
    (content,) = {caught.content for caught in relay.messages}
    for secret in (b"bcc", b"boss", b"audit", b"other@example.com"):
        assert secret not in content.lower()


@pytest.mark.parametrize("name", FILES)
def test_a_second_attempt_carries_the_same_octets(shell: Shell, engine: sa.Engine, name: str) -> None:
    """Refused for now after the dot, sent by the next worker once it is due."""
    with Relay({"DOT": "451 4.3.0 later"}, {}) as relay:
        to_relay(shell, relay.port)
        shell("enqueue", "--eml", str(mail.MAILS / name), "--to", mail.JANE, "--key", "mail:1")
        shell("worker", "--drain", "--lanes", "1", code=None)
        with engine.begin() as db:
            db.execute(sa.update(email_outbox).values(due_at=email_outbox.c.created_at))
        shell("worker", "--drain", "--lanes", "1")
        first, second = relay.transactions
    assert first.content == second.content
    assert (first.accepted, second.accepted) == (False, True)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "message.from"),
        (b"\n\nHello\n", "message.from"),
        (b"Hello\n", "line 1 of a header is not a field"),
        (b"From: a@example.com\nFrom: b@example.com\n\nHi\n", "message.from: is given twice"),
        (b"From: a@example.com\nSubject: x\rBcc: eve@example.com\n\nHi\n", "bare carriage return"),
        (b"From: a@example.com\nSubject: x\0y\n\nHi\n", "NUL"),
        (b"From: a@example.com\nSubject: \xff\xfe\n\nHi\n", "message.subject: is neither ASCII nor UTF-8"),
        (b"From: a@example.com\nContent-Type: multipart/mixed\n\n\xff\n", "a multipart without its boundary"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "header"),
        (bytes(range(256)) * 64, "header"),
    ],
    ids=range(10),
)
def test_a_file_that_is_no_message_is_refused_in_a_sentence(
    shell: Shell, tmp_path: Path, content: bytes, sentence: str
) -> None:
    file = tmp_path / "bad.eml"
    file.write_bytes(content)
    result = shell("enqueue", "--eml", str(file), "--to", mail.JANE, "--key", "k", code=1)
    assert sentence in result.stderr
    assert result.stderr.startswith("outbox-admin: ")
    assert result.stderr.count("\n") == 1
    assert shell.json("list")["messages"] == []
