"""The README is one story: its programs, statements and commands run from top to bottom, in one
directory and on one database, and at the end everything is caught up and nothing has failed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from milepost import Milepost, db
from milepost.db import Connection, one
from tests.waiting import wait_until

MAKE_ROLE = """
do $$ begin create role billing; exception when duplicate_object then null; end $$
"""
README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```(python|sql|sh)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+\.py)")
RUN, FOLLOW, REBUILD = "milepost run", "--follow", "milepost pipelines rebuild"
CONNECTED = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name = 'milepost revenue'
"""
INTERRUPTED = 130
ORDERS = {1: 42, 2: 7, 3: 5}  # placed in Python, in SQL, in the shell
PATIENCE_SECONDS = 240  # for Spark to start, on a busy machine


@dataclass(slots=True)
class Story:
    """A reader who does what the README says."""

    place: Path
    url: str
    said: str = ""  # by the runs that have ended
    run: subprocess.Popen[str] | None = field(default=None, init=False)

    def tell(self, language: str, text: str) -> None:
        if language == "python":
            self.write(text)
        elif language == "sql":
            self.execute(text)
        else:
            for line in text.splitlines():
                self.enter(line)

    def write(self, text: str) -> None:
        """The first line says into which file; behind what is there already."""
        found = FILE.match(text)
        assert found is not None, f"into which file? {text}"
        with (self.place / found[1]).open("a") as file:
            file.write(text)

    def execute(self, text: str) -> None:
        with Milepost(self.url).connect() as conn:
            for statement in text.splitlines():
                conn.execute(statement.encode())

    def enter(self, line: str) -> None:
        if line.startswith(RUN):
            self.stop()
            self.run = self.start(line.partition("#")[0])
            wait_until(self.is_running)
        elif FOLLOW in line:
            self.follow(line)
        elif line.startswith(REBUILD):
            self.rebuild(line)
        else:
            self.finish(line)

    def is_running(self) -> bool:
        """Connected, so that it hears a Ctrl-C from now on."""
        assert self.run is not None
        assert self.run.poll() is None, "it has ended by itself"
        with Milepost(self.url).connect() as conn:
            return counted(conn, CONNECTED) > 0

    def finish(self, line: str) -> None:
        process = self.start(line)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, line
        self.said += output

    def rebuild(self, line: str) -> None:
        """Not before there is something that was built: a reader is slower than Spark."""
        wait_until(lambda: sums_by_order(self.url) == ORDERS, PATIENCE_SECONDS)
        self.finish(line)

    def follow(self, line: str) -> None:
        """Until it has shown all there is; then Ctrl-C."""
        with self.start(line) as process:
            assert process.stdout is not None
            shown = [json.loads(process.stdout.readline()) for _ in ORDERS]
            process.send_signal(signal.SIGINT)
        assert [message["data"]["order"] for message in shown] == list(ORDERS)
        assert process.returncode == INTERRUPTED

    def start(self, line: str) -> subprocess.Popen[str]:
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.Popen(
            ["/bin/sh", "-c", line if "|" in line else f"exec {line}"],
            cwd=self.place,
            env=os.environ | {"MILEPOST_URL": self.url, "PATH": programs},
            stdout=subprocess.PIPE,
            text=True,
        )

    def stop(self) -> None:
        """As Ctrl-C does: what is in hand ends, and that is a success."""
        if self.run is None:
            return
        self.run.send_signal(signal.SIGINT)
        output, _ = self.run.communicate(timeout=PATIENCE_SECONDS)
        self.said += output
        assert self.run.returncode == 0
        self.run = None


@contextmanager
def told(story: Story) -> Iterator[Story]:
    """With the last `milepost run` still running. The reader has a role to grant something to."""
    with db.connect(story.url) as conn:
        conn.execute(MAKE_ROLE)
    try:
        for language, text in BLOCK.findall(README.read_text()):
            story.tell(language, text)
        yield story
    finally:
        if story.run is not None:
            story.run.kill()
            story.run.communicate()


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_the_readme_runs_as_one_story(empty_database: str, tmp_path: Path) -> None:
    with told(Story(tmp_path, empty_database)) as story:
        assert sums_by_order(empty_database) == ORDERS
        pipelines = status(empty_database)["pipelines"]
        assert [p["version"] for p in pipelines if p["is_active"]] == [2]  # it was rebuilt
        assert [p["last_error"] for p in pipelines] == [None] * len(pipelines)
        check_end(story)


def test_placing_another_order_is_harmless(empty_database: str, tmp_path: Path) -> None:
    story = Story(tmp_path, empty_database)
    for language, text in BLOCK.findall(README.read_text())[:2]:
        story.tell(language, text)
    for orders in (1, 2):
        story.said = ""
        story.enter("python place.py")
        assert story.said.count("OrderPlaced") == orders
    with Milepost(empty_database).connect() as conn:
        assert conn.execute("select sum(total) from revenue").fetchone() == (84,)


def check_end(story: Story) -> None:
    """Everything is handled once, by processors that still run; nothing was appended again."""
    wait_until(lambda: story.is_running() and is_caught_up(story.url), PATIENCE_SECONDS)
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
