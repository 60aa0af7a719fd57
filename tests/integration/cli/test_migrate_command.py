from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from milepost import Milepost, db, sql
from milepost.sql import LogOrder
from tests.integration.cli.command import Cli

STEPS = [f"applied {m.number:04}_{m.name}" for m in sql.migrations()]


def test_migrate_says_what_it_applied_and_then_that_there_is_nothing(empty_database: str) -> None:
    cli = Cli(empty_database)
    first, second = cli.run("migrate"), cli.run("migrate")
    assert (first.code, first.stdout.splitlines()) == (0, STEPS)
    assert (second.code, second.stdout) == (0, "")
    assert second.stderr.startswith("nothing to do")
    assert cli.run("migrate", "--json").document() == {"schema": "milepost", "applied": []}
    assert cli.run("migrate", "--sql").stdout == ""


@pytest.mark.parametrize(
    ("order", "schema"), [("append", "milepost"), ("transaction", "other_name")]
)
def test_the_printed_script_does_what_migrate_does(
    empty_database: str, order: LogOrder, schema: str
) -> None:
    cli = Cli(empty_database, {"MILEPOST_SCHEMA": schema})
    script = cli.run("migrate", "--sql", "--order", order)
    assert (script.code, script.stderr) == (0, "")
    with db.connect(empty_database) as conn:
        assert db.applied_number(conn, schema) is None
        conn.execute(script.stdout.encode())
        db.check_schema(conn, schema)
    again = cli.run("migrate", "--order", order)
    assert (again.code, again.stdout) == (0, "")
    assert again.stderr.startswith("nothing to do")
    assert cli.run("doctor", "--json").document()["order"] == order


@pytest.mark.parametrize("order", ["append"])
def test_another_order_than_the_logs_is_refused(cli: Cli) -> None:
    result = cli.run("migrate", "--order", "transaction")
    assert (result.code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: The log in schema 'milepost' was created in append")
    assert len(result.stderr.splitlines()) == 1


def test_ten_processes_migrate_an_empty_database_at_once(empty_database: str) -> None:
    cli = Cli(empty_database)
    with ThreadPoolExecutor(10) as pool:
        results = list(pool.map(lambda _: cli.run("migrate"), range(10)))
    assert [(result.code, result.stderr) for result in results if result.code != 0] == []
    applied = [line for result in results for line in result.stdout.splitlines()]
    assert sorted(applied) == STEPS
    assert list(Milepost(empty_database).read()) == []
