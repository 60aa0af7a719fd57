"""Roles of a test's own: each may do what `milepost grant` lets it do, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import LiteralString
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from milepost import Milepost
from milepost.sql import Activity


@dataclass(frozen=True, slots=True)
class Roles:
    """Makes roles that connect to one database, whose owner `conn` and `url` are."""

    url: str
    conn: psycopg.Connection
    made: list[str] = field(default_factory=list)

    def make(self, *activities: Activity) -> str:
        """The URL with which the new role connects."""
        role = f"milepost_{'_'.join(activities) or 'nobody'}_{uuid4().hex[:8]}"
        run(self.conn, "create role {} login", role)
        self.made.append(role)
        if activities:
            Milepost(self.url).grant(role, *activities)
        return make_conninfo(self.url, user=role)

    def run(self, statement: LiteralString, *urls: str) -> None:
        """As the owner, with the roles of these URLs in it: `grant insert on seen to {}`."""
        run(self.conn, statement, *map(role_of, urls))

    def drop(self) -> None:
        for role in self.made:
            run(self.conn, "drop owned by {} cascade", role)
            run(self.conn, "drop role {}", role)


def run(conn: psycopg.Connection, statement: LiteralString, *roles: str) -> None:
    conn.execute(sql.SQL(statement).format(*map(sql.Identifier, roles)))


def role_of(url: str) -> str:
    return str(conninfo_to_dict(url)["user"])


@contextmanager
def roles_in(url: str) -> Iterator[Roles]:
    """In a database where PUBLIC may not even execute functions: nothing helps a role but what it
    was granted."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("revoke execute on all functions in schema milepost from public")
        roles = Roles(url, conn)
        try:
            yield roles
        finally:
            roles.drop()
