from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result as Invoked

from milepost import Milepost
from milepost.db import Connection
from tests.integration.cli.command import Cli
from tests.pipeline.running import expected_per_customer, place, rows

APPLICATION = "tests.pipeline.application:mp"
CUSTOMERS = "select customer, total, orders from customers order by customer"
# What the commands do is the same in both orders; what they call is tested in both.
pytestmark = pytest.mark.parametrize("order", ["append"])


@pytest.fixture
def cli(url: str, tmp_path: Path) -> Cli:
    return Cli(url, {"MILEPOST_SPARK_MASTER": "local[2]", "MILEPOST_SPARK_DIR": tmp_path.as_uri()})


def listed(cli: Cli, version: int) -> dict[str, Any]:
    (found,) = [p for p in cli.run("pipelines", "--json").document() if p["version"] == version]
    return dict(found)


def test_a_pipeline_is_run_listed_rebuilt_rolled_back_and_dropped(
    cli: Cli, mp: Milepost, in_process: Callable[..., Invoked]
) -> None:
    place(mp, 0, 60)
    ran = in_process("run", APPLICATION, "--only", "customers", "--until", "caught_up")
    assert ran.exit_code == 0, ran.output
    first = listed(cli, 1)
    assert (first["is_active"], first["state"], first["lag_messages"]) == (True, "stopped", 0)
    assert (first["position"], first["rows"], first["target"]) == ("0:60", 60, "public.customers")
    assert {"stage", "merge"} <= first["phases_ms"].keys()

    place(mp, 60, 40)
    assert listed(cli, 1)["lag_messages"] == 40
    rebuilt = in_process("pipelines", "rebuild", "customers", APPLICATION, "--json")
    assert rebuilt.exit_code == 0, rebuilt.output
    document = json.loads(rebuilt.stdout)
    assert (document["version"], document["replaced"], document["rows"]) == (2, 1, 100)
    assert "customers v2 filling: 100 of 100 messages" in rebuilt.stderr or (
        "customers v2 swapping: 100 of 100 messages" in rebuilt.stderr
    )
    assert rows(mp, CUSTOMERS) == expected_per_customer(100)
    assert [listed(cli, n)["state"] for n in (1, 2)] == ["kept", "stopped"]

    for command in ("status", "pipelines"):
        output = cli.run_on_terminal(command).stdout
        assert "2*" in output
        assert max(map(len, output.splitlines())) <= 80
    assert len(cli.run("status", "--json").document()["pipelines"]) == 2
    assert "phases_ms" in cli.run("pipelines", "show", "customers").stdout

    assert "shows version 1 again" in cli.run("pipelines", "rollback", "customers").stdout
    assert rows(mp, CUSTOMERS) == expected_per_customer(60)
    refused = cli.run("pipelines", "drop", "customers", "--version", "1")
    assert (refused.code, "is the active one" in refused.stderr) == (1, True)
    dropped = cli.run("pipelines", "drop", "customers", "--version", "2", "--yes")
    assert dropped.stdout == "dropped customers version 2\n"
    assert [p["version"] for p in cli.run("pipelines", "--json").document()] == [1]

    assert cli.run("pipelines", "pause", "customers").stdout == "customers: paused\n"
    assert listed(cli, 1)["state"] == "paused"
    assert cli.run("pipelines", "resume", "customers").stdout == "customers: resumed\n"
    assert listed(cli, 1)["state"] == "stopped"


def test_a_pipeline_is_tried_and_planned(
    mp: Milepost, conn: Connection, in_process: Callable[..., Invoked]
) -> None:
    place(mp, 0, 40)
    tried = in_process("pipelines", "try", "customers", APPLICATION, "--last", "12", "--limit", "3")
    assert tried.exit_code == 0, tried.output
    lines = tried.stdout.splitlines()
    assert lines[0] == "customers: 12 rows of 12 messages, after 0:28 up to 0:40"
    assert ["column", "type", "in", "PostgreSQL"] in [line.split() for line in lines]
    assert ["customer", "total", "orders"] in [line.split() for line in lines]
    assert "... and 9 more" in lines
    assert lines[-1] == "upsert customers by customer: the output fits. Nothing was written"

    tried = in_process("pipelines", "try", "customers", APPLICATION, "--from", "38", "--json")
    document = json.loads(tried.stdout)
    assert sorted(row["total"] for row in document["rows"]) == [38, 39]
    assert (document["after"], document["last"]) == ("0:38", "0:40")

    refused = in_process("pipelines", "try", "echo", APPLICATION)
    assert refused.exit_code == 1
    assert "would be refused: Pipeline 'echo': the column 'type'" in refused.stderr

    planned = in_process("pipelines", "plan", "customers", APPLICATION)
    assert planned.exit_code == 0, planned.output
    assert "about 40 after 0:0 up to 0:40: 0 in files, 40 in PostgreSQL" in planned.stdout
    assert "creates the table public.customers__v1 (customer text" in planned.stdout
    planned = in_process("pipelines", "plan", APPLICATION, "--json")
    assert planned.exit_code == 1  # of echo
    assert [plan["name"] for plan in json.loads(planned.stdout)] == ["customers", "echo"]
    assert rows(mp, "select count(*) from milepost.pipelines") == [(0,)]


def test_what_is_downstream_is_rebuilt_and_the_rest_is_passed_over(
    mp: Milepost, in_process: Callable[..., Invoked]
) -> None:
    place(mp, 0, 40)
    rebuilt = in_process("pipelines", "rebuild", "echo", APPLICATION, "--downstream", "--json")
    assert rebuilt.exit_code == 0, rebuilt.output
    document = json.loads(rebuilt.stdout)
    assert [(each["name"], each["rows"]) for each in document["rebuilt"]] == [("customers", 40)]
    assert [each["name"] for each in document["passed_over"]] == ["echo"]
    assert "rebuilding customers, in this order" in rebuilt.stderr
    assert "not echo: it would append its messages a second time" in rebuilt.stderr
    assert rows(mp, CUSTOMERS) == expected_per_customer(40)


def test_what_is_not_there_or_cannot_be_done_is_said(cli: Cli, conn: Connection) -> None:
    assert cli.run("pipelines").stdout == "no pipeline has run on this log yet\n"
    unknown = cli.run("pipelines", "pause", "nobody")
    assert (unknown.code, "There are: none" in unknown.stderr) == (1, True)
    unknown = cli.run("pipelines", "rebuild", "nobody", APPLICATION)
    assert (unknown.code, "There are: customers, echo" in unknown.stderr) == (1, True)
    refused = cli.run("pipelines", "rebuild", "echo", APPLICATION)
    assert (refused.code, "append its messages a second time" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["rebuild", "nobody", "--downstream"], 1, "customers, echo, topic:*, topic:echoes"),
        (["rebuild", "customers", "--downstream", "--to-version", "3"], 2, "versions of its own"),
        (["try", "nobody"], 1, "There are: customers, echo"),
        (["try", "customers", "--from", "soon"], 2, "neither beginning, end, a position"),
        (["plan", "nobody"], 1, "There are: customers, echo"),
    ],
)
def test_wrong_words_are_refused_before_anything_starts(
    in_process: Callable[..., Invoked], words: list[str], code: int, said: str
) -> None:
    refused = in_process("pipelines", *words[:2], APPLICATION, *words[2:])
    assert (refused.exit_code, said in " ".join(refused.stderr.split())) == (code, True)


def test_the_last_error_and_a_silent_driver_are_listed(cli: Cli, conn: Connection) -> None:
    conn.execute(
        "insert into milepost.pipelines (name, version, code_version, sink, is_active, built_at,"
        " state, rows_per_second, last_error, reported_at) values ('late', 1, 1, 'append t', true,"
        " now(), 'running', 7, %s, now() - interval '1 min')",
        ("ValueError: a bad order " * 20,),
    )
    status = listed(cli, 1)
    assert (status["state"], status["rows_per_second"]) == ("silent", 0)
    output = cli.run_on_terminal("pipelines").stdout
    assert "late v1: ValueError: a bad order" in output
    assert max(map(len, output.splitlines())) <= 80
    whole = "late v1: " + ("ValueError: a bad order " * 20).strip()
    assert whole in cli.run("pipelines").stdout.splitlines()


def test_an_error_is_shown_with_its_age_and_whether_it_is_over(cli: Cli, conn: Connection) -> None:
    conn.execute(
        "insert into milepost.pipelines (name, version, code_version, sink, is_active, built_at,"
        " state, last_error, last_error_at, reported_at) values ('late', 1, 1, 'append t', true,"
        " now(), 'running', 'ValueError: once', now() - interval '3 hours', now())"
    )
    assert "late v1, recovered, 3 h ago: ValueError: once" in cli.run("pipelines").stdout
    assert listed(cli, 1)["is_recovered"] is True
    conn.execute("update milepost.pipelines set state = 'failed'")
    assert "late v1, 3 h ago: ValueError: once" in cli.run("status").stdout
    assert listed(cli, 1)["is_recovered"] is False


def test_a_listing_has_all_that_an_operator_looks_for(cli: Cli, conn: Connection) -> None:
    conn.execute(
        "insert into milepost.pipelines (name, version, code_version, sink, is_active, built_at,"
        " state, rows_per_second, batches_per_second, phases_ms, reported_at) values"
        " ('daily', 3, 3, 'append t', true, now(), 'running', 1234, 2.5,"
        """ '{"stage": 120.4, "merge": 33.3, "spark.triggerExecution": 200}',"""
        " now() + interval '1 hour')"  # whose driver does not fall silent before it is listed
    )
    conn.execute(
        "insert into milepost.checkpoints (processor, version, segment, transaction_id, position)"
        " values ('daily', 3, 0, 0, 7)"
    )
    for command in ("pipelines", "status"):
        output = cli.run(command).stdout.splitlines()
        head = next(i for i, line in enumerate(output) if line.split()[:2] == ["name", "version"])
        assert output[head].split() == [
            "name", "version", "state", "position", "lag", "behind", "rows/s", "batches/s",
        ]  # fmt: skip
        row = ["daily", "3*", "running", "0:7", "0", "-", "1,234", "2.5"]
        assert output[head + 1].split() == row
        assert output[head + 2] == "daily v3: last batch merge 33 ms, stage 120 ms"
    assert listed(cli, 3)["phases_ms"]["spark.triggerExecution"] == 200
