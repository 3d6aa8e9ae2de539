"""The public Outbox: made from the settings, which the producer's room does not read."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from outbox_admin import ConfigurationError, KeyRing, Outbox
from tests.producer.orders import mail, rows


def test_an_outbox_from_the_environment(engine: sa.Engine, tmp_path: Path) -> None:
    ring = KeyRing.generate()
    ring.write(tmp_path / "ring.json")
    environ = {
        "OUTBOX_ENV": "test",
        "OUTBOX_KEY_RING": f"file:{tmp_path}/ring.json",
        "OUTBOX_SENDER": "Shop <no-reply@shop.example>",
        "OUTBOX_MAX_ATTEMPTS": "5",
    }
    with engine.begin() as connection:
        Outbox.from_env(environ).enqueue(connection, mail(), idempotency_key="1")
    [row] = rows(engine)
    assert (row.max_attempts, row.key_id) == (5, ring.newest_id)


def test_an_environment_that_lacks_the_ring_names_it() -> None:
    with pytest.raises(ConfigurationError, match="OUTBOX_KEY_RING"):
        Outbox.from_env({"OUTBOX_ENV": "production", "OUTBOX_SENDER": "a@shop.example"})
