"""The README is one story: its program, its test and its commands run from top to bottom, in one
directory and on one database, and at the end everything is caught up and nothing has failed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from milepost import Milepost, db
from milepost.db import Connection, one
from tests import zygote
from tests.documents.blocks import ROOT, to_run
from tests.documents.reader import Reader
from tests.server import TestServer
from tests.waiting import wait_until

README = ROOT / "README.md"
NUMBER = re.compile(r"\d+")
PLACED = 42  # in each run of the program


@pytest.fixture
def story(
    empty_database: str, server: TestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Reader:
    """A reader, whose tests run on the server of this run."""
    monkeypatch.setenv("MILEPOST_URL", empty_database)
    monkeypatch.setenv("MILEPOST_TEST_URL", server.base_url)
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    return Reader(tmp_path, zygote.zygote().fileno())


def test_the_readme_runs_as_one_story(story: Reader) -> None:
    with story.reading(to_run(README)):
        assert "mail about order 1\n" in story.said
        assert "1 passed" in story.said
        assert NUMBER.sub("N", report_in_the_readme()) in NUMBER.sub("N", story.said)
        check(story, orders=1)


def test_placing_another_order_is_harmless(story: Reader) -> None:
    with story.reading(to_run(README)[:2]):
        story.finish("python app.py")
        check(story, orders=2)


def test_the_application_runs_in_production(story: Reader) -> None:
    """Beside a program that places another order."""
    with story.reading(to_run(README)[:2]):
        story.start("milepost run app:mp")
        story.finish("python -c 'import app; app.place_order(42)'")
        wait_until(lambda: mails_and_revenue(story.url) == (0, 2 * PLACED))
        story.finish("milepost doctor")
        check(story, orders=2)


def check(story: Reader, orders: int) -> None:
    story.stop()
    mails = re.findall(r"mail about order (\d)", story.said)
    assert sorted(mails) == [str(order) for order in range(1, orders + 1)]
    assert mails_and_revenue(story.url) == (0, orders * PLACED)
    with Milepost(story.url).connect() as conn:
        assert counted(conn, "select count(*) from milepost.messages") == orders
        assert counted(conn, "select count(*) from milepost.dead_letters") == 0


def mails_and_revenue(url: str) -> tuple[int, int]:
    with db.connect(url) as conn:
        mails = counted(conn, "select count(*) from milepost.jobs")
        return mails, counted(conn, "select sum(total) from revenue")


def counted(conn: Connection, query: str) -> int:
    return int(one(conn.execute(query.encode()).fetchone())[0])


def report_in_the_readme() -> str:
    """What `crash_everywhere` prints. How many statements there are depends on the version."""
    (found,) = re.findall(r"^# (processor 'revenue': .*)$", README.read_text(), re.MULTILINE)
    return str(found)
