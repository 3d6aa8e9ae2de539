"""Migrated PostgreSQL databases that tests use one after the other: to copy one for each takes ten times as long.

A test finds one as it would find a copy of the template. What it wrote is truncated; a database that it altered, or
that cannot be emptied, is dropped and never lent again. Nothing here knows a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.support import databases
from tests.support.ports import HOST
from tests.support.postgres import PostgresServer
from tests.support.waiting import LIMIT

FIRST_OWN = 16384  #: what has a lower number than this the server brought along

#: Whoever alters a schema adds rows here, replaces them by newer ones or takes them away.
_CATALOGUES = {
    "pg_attribute": "attrelid",
    "pg_attrdef": "oid",
    "pg_constraint": "oid",
    "pg_event_trigger": "oid",
    "pg_index": "indexrelid",
    "pg_namespace": "oid",
    "pg_policy": "oid",
    "pg_proc": "oid",
    "pg_rewrite": "ev_class",
    "pg_statistic": "starelid",
    "pg_trigger": "oid",
    "pg_type": "oid",
}
_ROWS = "SELECT '{name}' AS what, count(*) || ' ' || coalesce(max(xmin::text::bigint), 0) AS rows FROM {name}"
#: Without what TRUNCATE and ANALYZE write; the latter is seen in pg_statistic.
_RELATIONS = f"""
    SELECT 'pg_class', md5(string_agg(concat_ws(' ', oid, relname, relnamespace, relkind, relpersistence, reltablespace,
        relowner, relacl, reloptions, relrowsecurity, relreplident), ',' ORDER BY oid))
    FROM pg_class WHERE oid >= {FIRST_OWN} AND relkind <> 't'"""
_SETTINGS = """
    SELECT 'settings', string_agg(setconfig::text, ',') FROM pg_db_role_setting
    WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())"""
_WRITTEN = f"""
    SELECT oid::regclass::text FROM pg_class
    WHERE oid >= {FIRST_OWN} AND relkind = 'r' AND pg_relation_size(oid) > 0 ORDER BY oid"""
_OTHERS = f"""
    SELECT pg_terminate_backend(pid, {LIMIT * 1000:.0f}) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""

Shape = frozenset[tuple[str, str | None]]


@dataclass(slots=True)
class Stock:
    """``idle``: databases as good as new."""

    server: PostgresServer
    template: str
    idle: list[Loan] = field(default_factory=list)

    @contextmanager
    def lend(self) -> Iterator[str]:
        """Gives the URL of a database that nobody else uses."""
        loan = self.idle.pop() if self.idle else self._another()
        try:
            yield self.server.url(loan.name)
        finally:
            if loan.made_good(self.server):
                self.idle.append(loan)
            else:
                databases.drop_postgres(self.server, loan.name)

    def clear(self) -> None:
        while self.idle:
            databases.drop_postgres(self.server, self.idle.pop().name)

    def _another(self) -> Loan:
        name = databases.copy_postgres(self.server, self.template)
        with _inside(self.server, name) as db:
            kept = _written(db)
            return Loan(name, kept, _shape(db, kept))


@dataclass(frozen=True, slots=True)
class Loan:
    """``kept``: the tables that hold something from the beginning."""

    name: str
    kept: list[str]
    shape: Shape

    def made_good(self, server: PostgresServer) -> bool:
        """Whether it is now as it was before it was lent. Who is still connected is cut off."""
        try:
            with _inside(server, self.name) as db:
                db.execute(_OTHERS)
                if _shape(db, self.kept) != self.shape:
                    return False
                written = [table for table in _written(db) if table not in self.kept]
                if written:
                    db.execute(f"TRUNCATE {', '.join(written)} RESTART IDENTITY".encode())
                return True
        except psycopg.Error:
            return False


def _inside(server: PostgresServer, name: str) -> psycopg.Connection[Any]:
    return psycopg.connect(host=HOST, port=server.port, user="postgres", dbname=name, autocommit=True)


def _written(db: psycopg.Connection[Any]) -> list[str]:
    return [table for (table,) in db.execute(_WRITTEN.encode())]


def _shape(db: psycopg.Connection[Any], kept: list[str]) -> Shape:
    catalogues = [
        f"{_ROWS.format(name=name)} WHERE {number} >= {FIRST_OWN}" for name, number in _CATALOGUES.items()
    ]
    contents = [_ROWS.format(name=table) for table in kept]
    return frozenset(db.execute(" UNION ALL ".join([*catalogues, *contents, _RELATIONS, _SETTINGS]).encode()))
