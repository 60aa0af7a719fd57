from __future__ import annotations

import re
from urllib.request import urlopen

import pytest

from milepost import Milepost, db
from milepost.sql import LogOrder
from milepost_demo.balances import SEGMENTS
from milepost_demo.command import DemoTimedOut, deadline
from milepost_demo.place import SCHEMA
from tests.integration.cli.command import Cli
from tests.soak import Figures


def test_the_demo_proves_that_nothing_is_lost(empty_database: str, order: LogOrder) -> None:
    cli = Cli(empty_database)
    result = cli.run(
        "demo", "--seconds", "3", "--writers", "4", "--order", order, "--no-spark", "--json"
    )
    assert result.code == 0, result
    outcome = result.document()
    reader, naive = outcome["reader"], outcome["naive"]
    assert reader["read"] == reader["committed"] == outcome["written"]["committed"] > 0
    assert outcome["written"]["rolled_back"] > 0
    # The contrast is real: what is read to the horizon would have been lost without it.
    assert naive["lost"] > 0
    assert len(list(Milepost(empty_database, schema=SCHEMA).read())) == reader["committed"]
    assert outcome["balances"]["wrong"] == 0
    with db.connect(empty_database) as conn:
        found = conn.execute(f"select count(*) from {SCHEMA}.segments").fetchone()  # noqa: S608
    assert found == (SEGMENTS,)


@pytest.mark.soak
@pytest.mark.timeout(1000)
def test_the_pipelines_of_the_demo_survive_what_it_does_to_them(
    empty_database: str, figures: Figures
) -> None:
    # It starts Spark four times, and gives up by itself before this does.
    arguments = ("demo", "--seconds", "1", "--writers", "2", "--json")
    result = Cli(empty_database).run(*arguments, timeout=960)
    assert result.code == 0, result
    outcome = result.document()
    revenue, reader = outcome["revenue"], outcome["reader"]
    figures(
        messages=reader["committed"],
        kills=revenue["kills"],
        lost=reader["committed"] - reader["read"],
    )
    assert (revenue["kills"], revenue["version"], revenue["wrong"]) == (2, 2, 0)
    sums = {revenue[name] for name in ("sum_of_log", "sum_of_days", "sum_of_customers")}
    assert len(sums) == 1
    assert sums.pop() > 0


def test_the_demo_shows_a_table_of_80_columns_and_begins_anew(empty_database: str) -> None:
    cli = Cli(empty_database)
    for _ in range(2):
        result = cli.run("demo", "--seconds", "0.5", "--writers", "2", "--no-spark")
        assert result.code == 0, result
    assert "ok: nothing was lost, doubled or out of order" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_the_dashboard_is_served_while_the_demo_runs(empty_database: str) -> None:
    with Cli(empty_database).start(
        "demo", "--seconds", "3", "--writers", "2", "--no-spark", "--ui"
    ) as demo:
        assert demo.stderr is not None
        url = next(found[0] for line in demo.stderr if (found := re.search(r"http://127\S+", line)))
        with urlopen(url) as answer:  # noqa: S310 - our own address
            page = answer.read().decode()
        assert "Overview · Milepost" in page
        rest = demo.stderr.read()
    assert demo.wait(60) == 0
    assert f"milepost ui --schema {SCHEMA}" in rest


def test_two_demos_in_one_database_do_not_meet(empty_database: str) -> None:
    with db.connect(empty_database) as other:
        other.execute(
            "select pg_advisory_lock(hashtextextended('milepost.demo.\"milepost_demo\"', 0))"
        )
        result = Cli(empty_database).run("demo", "--seconds", "0.5", "--no-spark")
    assert (result.code, "another demo is running" in result.stderr) == (1, True)


def test_the_deadline_ends_a_query_that_hangs(empty_database: str) -> None:
    with pytest.raises(DemoTimedOut), db.connect(empty_database) as conn, deadline(0.2):
        conn.execute("select pg_sleep(300)")
