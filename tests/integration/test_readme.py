"""The README is one story: its programs, statements and commands run from top to bottom, in one
directory and on one database, and at the end everything is caught up and nothing has failed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from milepost import Milepost, db
from milepost.db import Connection, one
from tests import zygote
from tests.documents.blocks import to_run
from tests.documents.reader import Reader
from tests.waiting import wait_until

MAKE_ROLE = """
do $$ begin create role billing; exception when duplicate_object then null; end $$
"""
README = Path(__file__).parents[2] / "README.md"
REBUILD = "milepost pipelines rebuild"
ORDERS = {1: 42, 2: 7, 3: 5}  # placed in Python, in SQL, in the shell
PATIENCE_SECONDS = 240  # for Spark to start, on a busy machine


class Story(Reader):
    """A reader who does what the README says."""

    def kind_of(self, line: str) -> str:
        return "rebuild" if line.startswith(REBUILD) else super().kind_of(line)

    def rebuild(self, line: str) -> None:
        """Not before there is something that was built: a reader is slower than Spark."""
        wait_until(lambda: sums_by_order(self.url) == ORDERS, PATIENCE_SECONDS)
        self.finish(f"{line}\n")

    def follow(self, line: str, count: int = len(ORDERS)) -> list[str]:
        """All that there is."""
        shown = super().follow(line, count)
        assert [json.loads(message)["data"]["order"] for message in shown] == list(ORDERS)
        return shown


@pytest.fixture
def story(empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    """The reader has a role to grant something to."""
    monkeypatch.setenv("MILEPOST_URL", empty_database)
    with db.connect(empty_database) as conn:
        conn.execute(MAKE_ROLE)
    return Story(tmp_path, zygote.zygote().fileno())


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_the_readme_runs_as_one_story(story: Story) -> None:
    with story.reading(to_run(README)):
        assert sums_by_order(story.url) == ORDERS
        pipelines = status(story.url)["pipelines"]
        assert [p["version"] for p in pipelines if p["is_active"]] == [2]  # it was rebuilt
        assert [p["last_error"] for p in pipelines] == [None] * len(pipelines)
        check_end(story)


def test_placing_another_order_is_harmless(story: Story) -> None:
    with story.reading(to_run(README)[:2]):
        for orders in (1, 2):
            story.said = ""
            story.finish("python place.py")
            assert story.said.count("OrderPlaced") == orders
    with Milepost(story.url).connect() as conn:
        assert conn.execute("select sum(total) from revenue").fetchone() == (84,)


def check_end(story: Story) -> None:
    """Everything is handled once, by processors that still run; nothing was appended again."""
    wait_until(lambda: is_caught_up(story.url), PATIENCE_SECONDS)
    found = status(story.url)
    assert [(p["name"], p["state"], p["last_error"]) for p in found["processors"]] == [
        ("revenue", "running", None),
        ("thanks", "running", None),
    ]
    assert found["queue"]["dead"] == 0
    story.stop()
    mails = re.findall(r"mail about order (\d+)", story.said)
    assert sorted(map(int, mails)) == [1, 2, 2, 3]  # the second 2 was put in SQL
    with Milepost(story.url).connect() as conn:
        assert counted(conn, "select sum(total) from revenue") == sum(ORDERS.values())
        assert counted(conn, "select count(*) from milepost.messages") == len(ORDERS)
        assert counted(conn, "select count(*) from milepost.dead_letters") == 0


def is_caught_up(url: str) -> bool:
    found = status(url)
    lags = {processor["name"]: processor["lag_messages"] for processor in found["processors"]}
    waiting = sum(found["queue"][state] for state in ("ready", "scheduled", "running"))
    return lags == {"revenue": 0, "thanks": 0} and not waiting


def status(url: str) -> Any:
    command = [sys.executable, "-m", "milepost.cli", "status", "--json"]
    result = subprocess.run(
        command, env=os.environ | {"MILEPOST_URL": url}, capture_output=True, check=True
    )
    return json.loads(result.stdout)


def sums_by_order(url: str) -> dict[int, int]:
    with Milepost(url).connect() as conn:
        if conn.execute("select to_regclass('by_order')").fetchone() == (None,):
            return {}
        return dict(conn.execute("select id, total from by_order").fetchall())


def counted(conn: Connection, query: str) -> int:
    return int(one(conn.execute(query.encode()).fetchone())[0])
