"""The census of keys, and the person's word that one is lost."""

import pytest
import sqlalchemy as sa

from outbox_admin.db.schema import audit_entry, outbox_key
from outbox_admin.db.store import keys
from outbox_admin.errors import ConfigurationError
from tests.db.rows import KID, NOW, add, later


def test_check_values_are_kept_from_the_first_time_on(engine: sa.Engine) -> None:
    with engine.begin() as db:
        keys.register(db, {KID: "aa", "bb" * 8: "cc"}, now=NOW)
        keys.register(db, {KID: "aa"}, now=later(days=1))
        stored = {one.kid: one for one in db.execute(sa.select(outbox_key))}
    assert {kid: one.check_value for kid, one in stored.items()} == {KID: "aa", "bb" * 8: "cc"}
    assert stored[KID].created_at == NOW


def test_another_key_under_a_known_id_is_refused(engine: sa.Engine) -> None:
    with engine.begin() as db:
        keys.register(db, {KID: "aa"}, now=NOW)
        with pytest.raises(ConfigurationError, match=KID):
            keys.register(db, {KID: "zz"}, now=NOW)
        assert db.execute(sa.select(outbox_key.c.check_value)).scalars().all() == ["aa"]


def test_a_key_first_known_by_its_absence_is_registered_later(engine: sa.Engine) -> None:
    with engine.begin() as db:
        db.execute(sa.insert(outbox_key).values(kid=KID, created_at=NOW, missing_since=NOW))
        keys.register(db, {KID: "aa"}, now=NOW)
        assert db.execute(sa.select(outbox_key.c.check_value)).scalar_one() == "aa"


def test_a_key_is_proven_once(engine: sa.Engine) -> None:
    with engine.begin() as db:
        keys.register(db, {KID: "aa", "bb" * 8: "cc"}, now=NOW)
        assert keys.proven(db) == set()
        keys.prove(db, KID, now=NOW)
        keys.prove(db, {KID}, now=later(days=1))
        assert keys.proven(db) == {KID}
        proven_at = sa.select(outbox_key.c.proven_at).where(outbox_key.c.kid == KID)
        assert db.execute(proven_at).scalar_one() == NOW


@pytest.mark.parametrize("known", [True, False])
def test_declaring_a_key_lost_is_audited_with_the_number_of_rows(engine: sa.Engine, known: bool) -> None:
    with engine.begin() as db:
        if known:
            keys.register(db, {KID: "aa"}, now=NOW)
        for _ in range(2):
            add(db)
        add(db, key_id="ff" * 8)
        assert keys.declare_lost(db, KID, who="root@host", now=NOW) == 2
        assert keys.lost(db) == {KID}
        [entry] = db.execute(sa.select(audit_entry))
    assert (entry.action, entry.actor, entry.target, entry.count) == (
        "key_declared_lost",
        "root@host",
        f"key:{KID}",
        2,
    )
