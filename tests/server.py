"""The server that a run of the tests works on."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo


@dataclass(frozen=True)
class TestServer:
    """Databases are made and dropped through the database that `base_url` names."""

    __test__ = False  # a name that pytest would collect

    base_url: str

    def url(self, database: str) -> str:
        return make_conninfo(self.base_url, dbname=database)

    def create_database(self, prefix: str, template: str = "template0") -> str:
        name = f"milepost_{prefix}_{uuid4().hex[:8]}"
        statement = sql.SQL("create database {} template {} encoding 'UTF8'").format(
            sql.Identifier(name), sql.Identifier(template)
        )
        self.execute(statement)
        return name

    def drop_database(self, name: str) -> None:
        self.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.base_url, autocommit=True) as conn:
            conn.execute(statement)
