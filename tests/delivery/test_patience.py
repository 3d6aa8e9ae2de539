"""A worker whose database turns its login down says so once, with the cure, and goes on trying."""

from __future__ import annotations

import logging
import socket
import struct
import threading

import pytest

from outbox_admin.db.engine import create
from outbox_admin.delivery import patience
from outbox_admin.delivery.signals import Call

ASK_PASSWORD = b"R" + struct.pack("!II", 8, 3)
_FIELDS = b"SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed\0\0"
REFUSE = b"E" + struct.pack("!I", 4 + len(_FIELDS)) + _FIELDS
TRIES = 3


def refuse_logins(listening: socket.socket, call: Call) -> None:
    """As PostgreSQL does it, so often; then the worker is told to stop."""
    for number in range(1, TRIES + 1):
        talk, _ = listening.accept()
        with talk:
            talk.recv(4096)
            talk.sendall(ASK_PASSWORD)
            talk.recv(4096)
            if number == TRIES:
                call.came = True
            talk.sendall(REFUSE)


def test_a_refused_login_is_said_once_with_its_cure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(patience, "AGAIN_FIRST", 0.01)
    call = Call()
    with socket.create_server(("127.0.0.1", 0)) as listening, caplog.at_level(logging.ERROR):
        server = threading.Thread(target=refuse_logins, args=(listening, call))
        server.start()
        port = listening.getsockname()[1]
        engine = create(
            f"postgresql://outbox:sesame@127.0.0.1:{port}/outbox?sslmode=disable&gssencmode=disable"
        )
        assert not patience.until_it_answers(engine.connect, call)
        server.join()
        engine.dispose()
    (said,) = [record.getMessage() for record in caplog.records]
    assert "turns the worker's login down" in said
    assert "OUTBOX_DATABASE_URL" in said
    assert "sesame" not in said
