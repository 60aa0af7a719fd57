"""A missing privilege is an error of ours: what, as whom, and the command that grants it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

from milepost import (
    Job,
    Message,
    Milepost,
    RecordedMessage,
    Repeat,
    Retry,
    TakenJob,
    append,
    db,
    put,
)
from milepost.archive import Policy, set_policy
from milepost.db import Connection
from milepost.errors import HandlerFailed, NotOwner, NotPermitted
from milepost.sql import LogOrder
from tests.integration.cli.command import Cli
from tests.roles import Roles, role_of


@pytest.fixture
def order() -> LogOrder:
    return "append"


def handle(messages: list[RecordedMessage], tx: Connection) -> None:
    pass


def work(job: TakenJob) -> None:
    pass


def run_scheduler(mp: Milepost) -> None:
    mp.schedule("daily", Repeat(timedelta(days=1)), Job("chores"))
    mp.run(until="drained")


def with_connection(do: Callable[[Connection], object]) -> Callable[[Milepost], object]:
    """As in a program that brings a connection of its own."""

    def run(mp: Milepost) -> None:
        with psycopg.connect(mp._url) as conn:
            do(conn)

    return run


def append_async(mp: Milepost) -> None:
    async def run() -> None:
        async with await db.connect_async(mp._url) as conn:
            await append(conn, Message("T", 1))

    asyncio.run(run())


DOING: dict[str, tuple[str, Callable[[Milepost], object]]] = {
    "append": ("append", with_connection(lambda conn: append(conn, Message("T", 1)))),
    "append many": (
        "append", with_connection(lambda conn: append(conn, *[Message("T", 1)] * 300)),
    ),
    "append async": ("append", append_async),
    "put": ("put", with_connection(lambda conn: put(conn, Job("c")))),
    "put many": ("put", with_connection(lambda conn: put(conn, *[Job("c")] * 300))),
    "read": ("read", lambda mp: list(mp.read())),
    "horizon": ("read", lambda mp: mp.horizon()),
    "position": ("read", lambda mp: mp.processor("p")(handle).position()),
    "process": ("process", lambda mp: mp.processor("p")(handle).run("caught_up")),
    "process segments": (
        "process", lambda mp: mp.processor("p", segments=2)(handle).run("caught_up"),
    ),
    "work": ("work", lambda mp: mp.worker("c")(work).run("drained")),
    "schedule": ("work", run_scheduler),
    "set channel": ("operate", lambda mp: mp.set_channel("c", max_size=1)),
    "diagnose": ("metrics", lambda mp: mp.diagnose()),
}  # fmt: skip


@pytest.mark.parametrize("doing", DOING)
def test_a_role_without_grants_is_told_the_command(roles: Roles, doing: str) -> None:
    activity, do = DOING[doing]
    url = roles.make()
    with pytest.raises(NotPermitted) as refused:
        do(Milepost(url))
    assert str(refused.value) == (
        f"Permission denied for schema milepost, as role {role_of(url)!r}. Run as the owner of the "
        f"schema 'milepost': milepost grant {role_of(url)} --to {activity} --apply"
    )
    assert isinstance(refused.value.__cause__, psycopg.errors.InsufficientPrivilege)


@pytest.mark.parametrize("doing", DOING)
def test_following_the_advice_helps(roles: Roles, doing: str) -> None:
    activity, do = DOING[doing]
    url = roles.make()
    with pytest.raises(NotPermitted) as refused:
        do(Milepost(url))
    command = str(refused.value).partition("milepost grant ")[2].split()
    granted = Cli(roles.url).run("grant", *command)
    assert (granted.code, granted.stderr) == (0, ""), granted
    assert activity in granted.stdout
    do(Milepost(url))


def test_a_privilege_that_is_missing_later_is_named_too(
    roles: Roles, mp: Milepost, conn: Connection
) -> None:
    """As after an upgrade that needs more: the processor's row says so as well."""
    url = roles.make("process")
    processor = Milepost(url).processor("p")(handle)
    processor.run("caught_up")
    roles.run("revoke select on milepost.replays from {}", url)
    with pytest.raises(NotPermitted, match="Permission denied for table replays") as refused:
        processor.run("caught_up")
    assert (refused.value.role, refused.value.activity) == (role_of(url), "process")
    roles.run("revoke select on milepost.messages from {}", url)
    roles.run("grant select on milepost.replays to {}", url)
    mp.append(conn, Message("T", 1))
    with pytest.raises(NotPermitted, match="table messages"):
        processor.run("caught_up")
    row = conn.execute("select last_error from milepost.processors").fetchone()
    assert row is not None
    assert f"milepost grant {role_of(url)} --to process --apply" in row[0]


def test_another_schema_is_part_of_the_command(roles: Roles) -> None:
    Milepost(roles.url, schema="other").migrate()
    url = roles.make()
    with pytest.raises(NotPermitted, match=r"--to read --apply --schema other$"):
        list(Milepost(url, schema="other").read())


def test_what_the_handlers_own_sql_may_not_do_stays_its_own(
    roles: Roles, mp: Milepost, conn: Connection
) -> None:
    """No grant of ours would help: the error is PostgreSQL's."""
    conn.execute("create table secret (n integer)")
    application = Milepost(roles.make("process", "work", "read", "append"))

    @application.processor("nosy", retry=Retry(limit=0))
    def nosy(messages: list[RecordedMessage], tx: Connection) -> None:
        tx.execute("select n from secret")

    mp.append(conn, Message("T", 1))
    with pytest.raises(HandlerFailed, match="permission denied for table secret") as failed:
        nosy.run("caught_up")
    assert isinstance(failed.value.__cause__, psycopg.errors.InsufficientPrivilege)
    assert "milepost grant" not in str(failed.value)


def test_what_a_handler_asks_of_milepost_is_named_by_its_own_activity(
    roles: Roles, mp: Milepost, conn: Connection
) -> None:
    application = Milepost(roles.make("process"))

    @application.processor("relay", retry=Retry(limit=0))
    def relay(messages: list[RecordedMessage], tx: Connection) -> None:
        application.put(tx, Job("c"))

    mp.append(conn, Message("T", 1))
    with pytest.raises(HandlerFailed, match="--to put --apply"):
        relay.run("caught_up")


@pytest.mark.parametrize(
    ("words", "activity"),
    [
        (["append"], "append"),
        (["read"], "read"),
        (["status"], "metrics"),
        (["doctor"], "metrics"),
        (["processors"], "operate"),
        (["queue"], "operate"),
        (["queue", "put", "c"], "put"),
        (["channels", "pause", "c"], "operate"),
        (["dead-letters"], "operate"),
    ],
)
def test_commands_fail_in_one_line_with_the_grant(
    roles: Roles, words: list[str], activity: str
) -> None:
    url = roles.make()
    result = Cli(url).run(*words)
    assert (result.code, result.stdout) != (0, "")
    assert result.stderr.count("\n") == 1
    assert f"milepost grant {role_of(url)} --to {activity} --apply" in result.stderr


@pytest.mark.parametrize("words", [["migrate"], ["rebase"], ["grant", "postgres", "--to", "read"]])
def test_what_only_the_owner_may_do_says_so(roles: Roles, words: list[str]) -> None:
    for url in (roles.make(), roles.make("operate")):
        if words == ["migrate"]:
            roles.conn.execute("update milepost.log set functions_digest = 'old'")
        words = [*words, "--apply"] if words[0] == "grant" and "--apply" not in words else words
        result = Cli(url).run(*words)
        assert result.code == 1, result
        assert f"as role {role_of(url)!r}. Only the owner of the schema 'milepost'" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["retention", "set", "--keep", "1d", "--no-archive"],
        ["retention", "unset"],
        ["retention", "run"],
        ["processors", "abandon", "unused", "--yes"],
    ],
)
def test_operators_do_not_decide_what_is_lost(roles: Roles, words: list[str]) -> None:
    append(roles.conn, Message("Old", {}))
    set_policy(roles.conn, Policy(keep_messages=0))
    roles.conn.execute("insert into milepost.processors (name, version) values ('unused', 1)")
    url = roles.make("operate")
    assert Cli(url).run("retention", "--json").code == 0
    result = Cli(url).run(*words)
    assert (result.code, result.stdout) == (1, ""), result
    assert f"as role {role_of(url)!r}. Only the owner of the schema 'milepost'" in result.stderr


def test_a_database_where_one_may_not_create_the_schema(roles: Roles, empty_database: str) -> None:
    url = f"{empty_database} user={role_of(roles.make())}"
    with pytest.raises(NotOwner, match="Permission denied for database"):
        Milepost(url).migrate()
