"""A key ring and an outbox, as an application builds them once."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from outbox_admin.crypto.keyring import KeyRing
from outbox_admin.producer import Outbox
from tests.support import databases


@pytest.fixture
def ring() -> KeyRing:
    return KeyRing.generate()


@pytest.fixture
def outbox(ring: KeyRing) -> Outbox:
    return Outbox(keys=ring, sender="Shop <no-reply@shop.example>")


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    """The application's own, on both databases."""
    with databases.applications_engine(database_url) as engine:
        yield engine
