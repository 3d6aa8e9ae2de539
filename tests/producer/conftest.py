"""A key ring and an outbox, as an application builds them once."""

import pytest

from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.producer import Outbox


@pytest.fixture
def ring() -> KeyRing:
    return KeyRing.generate()


@pytest.fixture
def outbox(ring: KeyRing) -> Outbox:
    return Outbox(keys=ring, sender="Shop <no-reply@shop.example>")
