"""What each activity may do with each object of the schema, as lines to review:
`python -m tests.integration.roles.matrix` writes them to matrix.txt."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from milepost import Milepost
from milepost.db import Connection
from milepost.embedded import EmbeddedServer
from milepost.grants import ACTIVITIES
from milepost.sql import LogOrder
from tests.roles import Roles, role_of

FILE = Path(__file__).with_suffix(".txt")
_HEADER = """\
# Written by `python -m tests.integration.roles.matrix`. Review each line that changes: an activity
# gets what its page says (docs/security.md), and nothing else. What may be updated may be locked.
# As owner: with its privileges; without a search_path, only if every name is qualified.
# Functions can be called by everybody who sees the schema, procedures only by those named.
# [append], [transaction]: only in a log of that order.
"""
_RELATIONS = """
select
  case c.relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end
    || ' ' || c.relname || case when c.relrowsecurity then ' (policies)' else '' end,
  given.role,
  string_agg(given.what, ', ' order by given.what collate "C")
from pg_class as c
left join lateral (
  select
    pg_get_userbyid(acl.grantee) as role,
    lower(acl.privilege_type) || coalesce(
      ' (' || string_agg(acl.attname, ', ' order by acl.attname) || ')', ''
    ) as what
  from (
    select null::name, * from aclexplode(c.relacl)
    union all
    select column_.attname, acl.*
    from pg_attribute as column_ cross join lateral aclexplode(column_.attacl) as acl
    where column_.attrelid = c.oid
  ) as acl (attname, grantor, grantee, privilege_type, is_grantable)
  where acl.grantee <> c.relowner
  group by acl.grantee, acl.privilege_type, acl.attname is null
) as given on true
where c.relnamespace = 'milepost'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
group by 1, 2
"""
_ROUTINES = """
select
  case p.prokind when 'p' then 'procedure ' else 'function ' end || p.proname
    || case when p.prosecdef then ', as owner' else '' end
    || case when p.prosecdef and p.proconfig is null then ', no search_path' else '' end,
  pg_get_userbyid(acl.grantee),
  'execute'
from pg_proc as p
left join lateral aclexplode(p.proacl) as acl on p.prokind = 'p' and acl.grantee <> p.proowner
where p.pronamespace = 'milepost'::regnamespace
group by 1, 2
"""
_POLICIES = """
select
  'policy ' || policyname || ' of ' || tablename || ', ' || lower(cmd),
  null::text,
  ''
from pg_policies
where schemaname = 'milepost'
"""


def matrix(conn: Connection, roles: Roles) -> list[str]:
    """A line for each object, then one for each activity that may do something with it."""
    activities = {role_of(roles.make(each)): each for each in ACTIVITIES}
    found = [row for query in (_RELATIONS, _ROUTINES, _POLICIES) for row in conn.execute(query)]
    lines = {object_ for object_, _, _ in found}
    for object_, role, what in found:
        if role is not None:
            lines.add(f"{object_}: {activities.get(role, role)}: {what}")
    return sorted(lines)


def reviewed(order: LogOrder) -> list[str]:
    other = {"append": " [transaction]", "transaction": " [append]"}[order]
    lines = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return sorted(line.removesuffix(f" [{order}]") for line in lines if not line.endswith(other))


@contextmanager
def fresh_server() -> Iterator[EmbeddedServer]:
    with tempfile.TemporaryDirectory(prefix="milepost-matrix-") as directory:
        # Ours to open: as root, PostgreSQL runs as another user, who must reach its data.
        Path(directory).chmod(0o755)
        server = EmbeddedServer(Path(directory))
        try:
            yield server
        finally:
            server.stop()


def _lines() -> Iterator[str]:
    both: dict[LogOrder, list[str]] = {}
    with fresh_server() as server:
        url = server.start()
        orders: tuple[LogOrder, ...] = ("append", "transaction")
        for order in orders:
            with psycopg.connect(url, autocommit=True) as conn:
                conn.execute("drop schema if exists milepost cascade")
                Milepost(url).migrate(order)
                roles = Roles(url, conn)
                both[order] = matrix(conn, roles)
                roles.drop()
    for line in sorted({*both["append"], *both["transaction"]}):
        only = [order for order in both if line in both[order]]
        yield line if len(only) == len(both) else f"{line} [{only[0]}]"


if __name__ == "__main__":
    FILE.write_text(_HEADER + "".join(f"{line}\n" for line in _lines()))
