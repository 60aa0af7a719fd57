"""`milepost grant`: what it prints, what it applies, and what it refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from milepost import Message, Milepost, grants
from milepost.db import Connection
from milepost.errors import NotOwner, UnknownRole
from milepost.grants import ACTIVITIES
from milepost.sql import LogOrder
from tests.integration.cli.command import Cli
from tests.roles import Roles, role_of, run
from tests.server import program_of_server

ODD = 'odd "role"; drop schema milepost; --\n{schema}'


@pytest.fixture
def order() -> LogOrder:
    return "append"


def privileges(conn: Connection, role: str) -> set[tuple[str, ...]]:
    """On tables, columns, sequences, functions and the schema itself."""
    return set(
        conn.execute(
            """
            select 'relation', c.relname::text, acl.privilege_type
            from pg_class as c, aclexplode(c.relacl) as acl
            where acl.grantee = %(role)s::text::regrole
            union all
            select a.attrelid::regclass::text, a.attname::text, acl.privilege_type
            from pg_attribute as a, aclexplode(a.attacl) as acl
            where acl.grantee = %(role)s::text::regrole
            union all
            select 'function', p.oid::regprocedure::text, acl.privilege_type
            from pg_proc as p, aclexplode(p.proacl) as acl
            where acl.grantee = %(role)s::text::regrole
            union all
            select 'schema', n.nspname::text, acl.privilege_type
            from pg_namespace as n, aclexplode(n.nspacl) as acl
            where acl.grantee = %(role)s::text::regrole
            """,
            {"role": sql.Identifier(role).as_string()},
        ).fetchall()
    )


def test_it_prints_what_it_would_grant_and_grants_nothing(roles: Roles) -> None:
    role = role_of(roles.make())
    result = Cli(roles.url).run("grant", role, "--to", "append", "--to", "read")
    assert (result.code, result.stderr) == (0, "")
    assert result.stdout.startswith("begin;\n")
    assert result.stdout.endswith("commit;\n")
    assert f'grant usage on schema "milepost" to "{role}";' in result.stdout
    assert privileges(roles.conn, role) == set()


def test_psql_grants_by_what_it_prints_the_same_as_apply(roles: Roles, tmp_path: Path) -> None:
    psql = program_of_server("psql")
    printed, applied = role_of(roles.make()), role_of(roles.make())
    every = [word for activity in ACTIVITIES for word in ("--to", activity)]
    script = tmp_path / "grants.sql"
    script.write_text(Cli(roles.url).run("grant", printed, *every).stdout)
    subprocess.run(
        [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", script, roles.url],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    result = Cli(roles.url).run("grant", applied, *every, "--apply")
    assert result.stdout == (
        f"granted to {applied} in schema milepost: append, read, put, process, work, pipeline, "
        "archive, operate, metrics\n"
    )
    assert privileges(roles.conn, printed) == privileges(roles.conn, applied) != set()


def test_granting_again_changes_nothing(roles: Roles) -> None:
    role = role_of(roles.make("process", "work"))
    before = privileges(roles.conn, role)
    Milepost(roles.url).grant(role, "process", "work")
    assert privileges(roles.conn, role) == before


def test_an_unknown_role_is_refused(roles: Roles) -> None:
    for option in ([], ["--apply"]):
        result = Cli(roles.url).run("grant", "nobody_here", "--to", "read", *option)
        assert (result.code, result.stdout) == (1, "")
        assert result.stderr.startswith("error: There is no role 'nobody_here': nothing was")
    with pytest.raises(UnknownRole):
        Milepost(roles.url).grant("public", "read")


def test_an_unknown_activity_is_refused(roles: Roles) -> None:
    result = Cli(roles.url).run("grant", "postgres", "--to", "everything")
    assert (result.code, "everything" in result.stderr) == (2, True)
    assert Cli(roles.url).run("grant", "postgres").code == 2


def test_any_name_of_a_role_is_only_a_name(roles: Roles) -> None:
    run(roles.conn, "create role {}", ODD)
    roles.made.append(ODD)
    Milepost(roles.url).grant(ODD, *ACTIVITIES)
    assert ("schema", "milepost", "USAGE") in privileges(roles.conn, ODD)
    with psycopg.connect(roles.url, autocommit=True) as conn:
        conn.execute(grants.script(ODD, ACTIVITIES, "milepost").encode())


def test_another_schema_is_granted_alone(roles: Roles) -> None:
    Milepost(roles.url, schema="other").migrate()
    role = role_of(roles.make())
    result = Cli(roles.url).run("grant", role, "--to", "read", "--apply", "--schema", "other")
    assert result.code == 0, result
    granted = {name for kind, name, _ in privileges(roles.conn, role) if kind == "schema"}
    assert granted == {"other"}


def test_the_owner_of_the_schema_grants_without_being_a_superuser(
    roles: Roles, empty_database: str
) -> None:
    owner, reader = role_of(roles.make()), role_of(roles.make())
    with psycopg.connect(empty_database, autocommit=True) as conn:
        run(conn, "create schema milepost authorization {}", owner)
        try:
            mp = Milepost(make_conninfo(empty_database, user=owner))
            mp.migrate()
            mp.grant(reader, "read")
            with mp.connect() as own:
                mp.append(own, Message("T", 1))
            found = Milepost(make_conninfo(empty_database, user=reader)).read()
            assert [message.type for message in found] == ["T"]
        finally:
            run(conn, "drop owned by {}, {} cascade", owner, reader)


def test_who_may_grant_only_a_part_grants_nothing(roles: Roles) -> None:
    """PostgreSQL only warns of what it did not grant."""
    url, reader = roles.make(), role_of(roles.make())
    roles.run("grant usage on schema milepost to {} with grant option", url)
    roles.run("grant select on all tables in schema milepost to {}", url)
    with pytest.raises(NotOwner):
        Milepost(url).grant(reader, "read")
    assert privileges(roles.conn, reader) == set()
