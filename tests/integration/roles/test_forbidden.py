"""What a role must not be able to do, however it asks."""

from __future__ import annotations

from contextlib import suppress

import psycopg
import pytest
from psycopg.errors import DependentObjectsStillExist, InsufficientPrivilege

from milepost.db import Connection
from milepost.grants import ACTIVITIES
from milepost.sql import Activity, LogOrder
from tests.integration.roles.matrix import FILE, matrix, reviewed
from tests.roles import Roles

READ_DATA = "select data from milepost.messages"
APPEND = "select milepost.append('T', '{}'::json)"
PUT = "select milepost.put('c', '1')"
TAKE = "select milepost.take_from(array['c'], 1)"
STORE = (
    "select milepost.store_checkpoint('p', 1, 0, null, row(1, 1)::milepost.position)",
    "update milepost.checkpoints set position = 0",
)
RESET = "select milepost.reset_processor('p', 1, row(0, 0)::milepost.position)"
PAUSE = (
    "update milepost.processors set is_paused = true",
    "update milepost.pipelines set is_paused = true",
)
POLICY = (
    "select milepost.set_channel('c', 1)", "select milepost.pause_channel('c')",
    "select milepost.unset_channel('c')", "delete from milepost.channels",
)  # fmt: skip
SPARK = (
    "select milepost.open_spark_write(gen_random_uuid(), true)",
    "select milepost.close_spark_write(gen_random_uuid())",
)
LETTERS = "select data from milepost.dead_letters"
CONTENT = "select content from milepost.jobs"
# What nobody may do whom the owner has not made an owner.
OWNERS = (
    "update milepost.messages set data = '1'",
    "update milepost.messages set topic = 'other'",
    "delete from milepost.messages",
    "truncate milepost.messages",
    "lock table milepost.messages in exclusive mode",
    "insert into milepost.messages (type, data, transaction_id) select 'T', '{}', 0",
    "insert into milepost.messages (type, data, recorded_at) values ('T', '{}', now())",
    "select nextval('milepost.messages_position_seq')",
    "select setval('milepost.messages_position_seq', 1)",
    "select milepost.rebase()",
    "insert into milepost.jobs (channel, content) values ('c', '')",
    "update milepost.log set removed_position = 5",
    "delete from milepost.archive",
    "insert into milepost.retention (keep) values ('0')",
    "update milepost.retention set keep = '0'",
    "update milepost.migrations set number = 1",
    "insert into milepost.migrations (number, name) values (9999, 'later')",
    "update milepost.audit set who = 'somebody else'",
    "delete from milepost.audit",
    "insert into milepost.audit (at) values (now())",
    "truncate milepost.jobs",
    "truncate milepost.checkpoints",
    "drop table milepost.replays",
    "alter table milepost.messages disable trigger all",
    "create or replace function milepost.uuid7() returns uuid language sql return null::uuid",
    "drop function milepost.horizon()",
)
CREATE = (
    "create table milepost.mine (n integer)",
    "create function milepost.put(text, text) returns bigint language sql return 1",
)
FORBIDDEN: dict[Activity, tuple[str, ...]] = {
    "append": (
        "update milepost.spark_writes set staging = ''", "delete from milepost.spark_writes",
        READ_DATA, "select * from milepost.read()", "select recorded_at from milepost.messages",
        PUT, TAKE, *STORE, *PAUSE, *POLICY, LETTERS, CONTENT, RESET, *CREATE,
    ),
    "read": (
        *SPARK, APPEND, PUT, TAKE, *STORE, *PAUSE, *POLICY, LETTERS, CONTENT, RESET, *CREATE,
    ),
    "put": (
        READ_DATA, APPEND, TAKE, *STORE, *PAUSE, *POLICY, LETTERS, CONTENT, RESET, *CREATE,
        "update milepost.jobs set content = ''", "delete from milepost.jobs",
        "select state from milepost.jobs", "select max_concurrency from milepost.channels",
        "update milepost.job_dependencies set on_dead = 'run'", "select milepost.tend_followers()",
    ),
    "process": (
        "insert into milepost.archive (last_position) values (1)",
        APPEND, PUT, TAKE, *PAUSE, *POLICY, CONTENT, RESET, *CREATE,
        "insert into milepost.processors (name, version, is_paused) values ('p', 1, true)",
        "update milepost.segments set mask = 0", "delete from milepost.segments",
        "delete from milepost.checkpoints", "delete from milepost.processors",
        "delete from milepost.replays", "select target from milepost.pipelines",
        "update milepost.dead_letters set data = '1'", "update milepost.jobs set status = 'ready'",
    ),
    "work": (
        READ_DATA, APPEND, *STORE, *PAUSE, *POLICY, LETTERS, RESET, *CREATE,
        "update milepost.channels set max_concurrency = 100",
        "update milepost.channels set is_paused = false",
        "update milepost.jobs set channel = 'other'", "update milepost.jobs set max_attempts = 9",
        "select last_error from milepost.processors", "select setval('milepost.jobs_id_seq', 1)",
        "insert into milepost.channels (name) values ('c')",
        "select milepost.set_upkeep('c', '1 day')",
    ),
    "pipeline": (
        APPEND, PUT, TAKE, PAUSE[0], *POLICY, CONTENT, RESET,
        "select last_error from milepost.processors", "delete from milepost.segments",
    ),
    "archive": (
        APPEND, PUT, TAKE, *PAUSE, *POLICY, CONTENT, RESET, *CREATE,
        "update milepost.archive set location = ''", "delete from milepost.archive",
        "update milepost.retention set archive = null", "delete from milepost.retention",
        "delete from milepost.checkpoints", "delete from milepost.processors",
    ),
    "operate": (
        APPEND, PUT, TAKE, *CREATE, "update milepost.jobs set content = ''",
        "update milepost.jobs set result = ''", "update milepost.dead_letters set data = '1'",
        "update milepost.processors set topics = null", "delete from milepost.processors",
        "delete from milepost.pipelines", "update milepost.pipelines set is_active = false",
        "update milepost.parked_keys set key = ''",
    ),
    "metrics": (
        *SPARK,
        READ_DATA, "select metadata from milepost.messages", "select id from milepost.messages",
        "select * from milepost.read()", CONTENT, "select state from milepost.jobs",
        "select result from milepost.jobs", "select progress from milepost.jobs",
        "select last_error from milepost.jobs", LETTERS,
        "select error from milepost.dead_letters", "select key from milepost.parked_keys",
        APPEND, PUT, TAKE, *STORE, *PAUSE, *POLICY, RESET, *CREATE,
        "delete from milepost.instances", "delete from milepost.jobs",
        "select setval('milepost.jobs_taken_seq', 1)", "select milepost.repair_queue()",
    ),
}  # fmt: skip


@pytest.mark.parametrize("activity", ACTIVITIES)
def test_a_role_is_refused_what_is_not_its_own(roles: Roles, activity: Activity) -> None:
    with psycopg.connect(roles.make(activity), autocommit=True) as conn:
        for statement in (*OWNERS, *FORBIDDEN[activity]):
            try:
                with conn.transaction():
                    conn.execute(statement.encode())
            except InsufficientPrivilege:
                continue
            pytest.fail(f"{activity} may {statement}")


@pytest.mark.parametrize("order", ["append"])
def test_a_role_without_a_grant_is_refused_everything(roles: Roles) -> None:
    with psycopg.connect(roles.make(), autocommit=True) as conn:
        for statement in ("select milepost.horizon()", READ_DATA, APPEND, CONTENT):
            with pytest.raises(InsufficientPrivilege, match="schema milepost"):
                conn.execute(statement.encode())


@pytest.mark.parametrize("order", ["append"])
def test_the_owner_may_do_what_others_are_refused(conn: Connection) -> None:
    """So that a statement is not refused merely because it is wrong."""
    for statement in {*OWNERS, *CREATE, *(each for of in FORBIDDEN.values() for each in of)}:
        with (
            conn.transaction(force_rollback=True),
            suppress(psycopg.IntegrityError, DependentObjectsStillExist),
        ):
            conn.execute(statement.encode())


def test_what_a_role_may_do_has_been_reviewed(
    conn: Connection, roles: Roles, order: LogOrder
) -> None:
    """A new table, function or privilege needs a line in the file, and thereby a thought."""
    found = matrix(conn, roles)
    assert found == reviewed(order), f"python -m tests.integration.roles.matrix, then review {FILE}"
