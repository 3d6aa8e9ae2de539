"""The migrated database is the one that the tables describe, however many upgrade it at once."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext

from outbox_admin.db import migrations
from outbox_admin.db.engine import create
from outbox_admin.db.schema import metadata
from outbox_admin.errors import ConfigurationError
from tests.support.databases import upgrade_to


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/empty.db"
    url: str = request.getfixturevalue("empty_postgres_url")
    return url


@pytest.fixture
def empty(empty_url: str) -> Iterator[sa.Engine]:
    engine = create(empty_url)
    yield engine
    engine.dispose()


def test_the_migrated_database_equals_the_tables(engine: sa.Engine) -> None:
    with engine.connect() as db:
        # On SQLite Alembic takes the default '' for a difference to itself.
        defaults = db.dialect.name == "postgresql"
        options = {"version_table": migrations.VERSION_TABLE, "compare_server_default": defaults}
        assert compare_metadata(MigrationContext.configure(db, opts=options), metadata) == []


def test_the_partial_indexes_have_the_conditions_that_the_tables_give_them(engine: sa.Engine) -> None:
    """Alembic does not compare them."""
    with engine.connect() as db:
        found = {index["name"]: index for index in sa.inspect(db).get_indexes("email_outbox")}
        for index in metadata.tables["email_outbox"].indexes:
            wanted = index.dialect_options[db.dialect.name].get("where")
            options = found[str(index.name)].get("dialect_options", {})
            there = options.get(f"{db.dialect.name}_where")
            assert words(there) == words(wanted), index.name


def words(condition: object) -> set[str]:
    """PostgreSQL writes IN as = ANY (ARRAY[...])."""
    text = str(condition).replace("::text", "").replace("[]", "")
    for noise in ("= ANY", "ARRAY", "IN", "(", ")", "[", "]", ",", "=", "'"):
        text = text.replace(noise, " ")
    return set(text.split())


def test_each_migration_is_told_and_a_second_upgrade_finds_nothing_to_do(empty: sa.Engine) -> None:
    told: list[str] = []
    assert migrations.check(empty).current is None
    assert migrations.upgrade(empty, told.append).ok
    assert [line[:12] for line in told] == [f"{one} of 6: 000{one}" for one in range(1, 7)]
    told.clear()
    assert migrations.upgrade(empty, told.append).ok
    assert told == []


def test_an_interrupted_upgrade_goes_on_where_it_stopped(empty: sa.Engine) -> None:
    def cut(_db: object, _cursor: object, statement: str, *_: object) -> None:
        if "ADD COLUMN channel_fault_at" in statement:
            raise KeyboardInterrupt

    sa.event.listen(empty, "before_cursor_execute", cut)
    with pytest.raises(KeyboardInterrupt):
        migrations.upgrade(empty)
    sa.event.remove(empty, "before_cursor_execute", cut)
    assert migrations.check(empty).current == "0003"
    assert not sa.inspect(empty).has_table("outbox_route_worker")
    told: list[str] = []
    assert migrations.upgrade(empty, told.append).ok
    assert [line[:12] for line in told] == ["1 of 3: 0004", "2 of 3: 0005", "3 of 3: 0006"]


def test_an_index_that_an_earlier_fourth_migration_made_is_kept(engine: sa.Engine) -> None:
    with engine.begin() as db:
        db.execute(sa.text(f"UPDATE {migrations.VERSION_TABLE} SET version_num = '0004'"))
    assert migrations.upgrade(engine).ok
    names = [index["name"] for index in sa.inspect(engine).get_indexes("email_outbox")]
    assert names.count("ix_email_outbox_keyed") == 1


def test_processes_that_upgrade_at_once_do_it_once(empty: sa.Engine, empty_url: str) -> None:
    def start(_: int) -> bool:
        engine = create(empty_url)
        try:
            return migrations.upgrade(engine).ok
        finally:
            engine.dispose()

    with ThreadPoolExecutor(4) as processes:
        assert all(processes.map(start, range(4)))
    with empty.connect() as db:
        assert db.execute(sa.text(f"SELECT count(*) FROM {migrations.VERSION_TABLE}")).scalar_one() == 1


def test_the_applications_own_alembic_is_left_alone(empty: sa.Engine) -> None:
    with empty.begin() as db:
        db.execute(sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        db.execute(sa.text("INSERT INTO alembic_version VALUES ('shop7')"))
    migrations.upgrade(empty)
    with empty.connect() as db:
        assert db.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one() == "shop7"


def test_a_newer_database_is_refused(engine: sa.Engine) -> None:
    with engine.begin() as db:
        db.execute(sa.text(f"UPDATE {migrations.VERSION_TABLE} SET version_num = '9999'"))
    standing = migrations.check(engine)
    assert (standing.ok, standing.is_newer) == (False, True)
    assert "newer release" in standing.cure
    with pytest.raises(ConfigurationError, match="9999"):
        migrations.upgrade(engine)


def test_the_printed_statements_build_the_same_database(empty: sa.Engine) -> None:
    run(empty, migrations.sql(empty.dialect.name))
    assert migrations.check(empty).ok
    with empty.connect() as db:
        options = {"version_table": migrations.VERSION_TABLE}
        assert compare_metadata(MigrationContext.configure(db, opts=options), metadata) == []


def test_the_printed_statements_go_on_from_the_version_that_is_there(empty: sa.Engine) -> None:
    upgrade_to("0003", empty)
    run(empty, migrations.sql(empty.dialect.name, since="0003"))
    assert migrations.check(empty).ok
    with pytest.raises(ConfigurationError, match="no version 0815"):
        migrations.sql(since="0815")


@pytest.mark.parametrize(
    "empty_url", [pytest.param("postgresql", marks=pytest.mark.postgresql)], indirect=True
)
def test_an_index_that_failed_unnoticed_by_hand_is_not_recorded(empty: sa.Engine) -> None:
    upgrade_to("0004", empty)
    text = re.sub("CREATE INDEX .*;", "SELECT 1;", migrations.sql(since="0004"))
    with pytest.raises(sa.exc.DBAPIError, match="ix_email_outbox_keyed is not complete"):
        run(empty, text)
    assert migrations.check(empty).current == "0004"


def run(engine: sa.Engine, text: str) -> None:
    """As psql does: each statement by itself, transactions only where the text has them."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
        for statement in filter(str.strip, text.split(";\n\n")):
            db.exec_driver_sql(statement)


def test_there_are_statements_for_two_databases_only() -> None:
    with pytest.raises(ConfigurationError, match="mysql"):
        migrations.sql("mysql")


def test_the_way_back_leaves_nothing(empty: sa.Engine) -> None:
    migrations.upgrade(empty)
    scripts = migrations._scripts()
    with empty.begin() as db:
        steps = lambda revision, _context: scripts._downgrade_revs("base", revision)  # noqa: E731
        with EnvironmentContext(Config(), scripts, fn=steps) as context:
            context.configure(connection=db, version_table=migrations.VERSION_TABLE)
            with context.begin_transaction():
                context.run_migrations()
        assert sa.inspect(db).get_table_names() == [migrations.VERSION_TABLE]
