from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost import Milepost, db
from milepost.embedded import EmbeddedServer
from milepost.sql import LogOrder
from milepost_demo.balances import SEGMENTS
from milepost_demo.command import DemoTimedOut, deadline
from milepost_demo.place import SCHEMA
from tests.integration.cli.command import Cli
from tests.server import TestServer
from tests.soak import Figures

# What is started with an address, as a browser is: keeps the page.
BROWSER = """\
#!{python}
import shutil, sys
from urllib.request import urlopen
with urlopen(sys.argv[1]) as answer, open({page!r}, "wb") as file:
    shutil.copyfileobj(answer, file)
"""


@pytest.fixture(scope="module")
def database(server: TestServer) -> Iterator[str]:
    """One for both orders: a demo starts over where another has been, in whichever order."""
    name = server.create_database("empty")
    yield server.url(name)
    server.drop_database(name)


def test_the_demo_proves_that_nothing_is_lost(database: str, order: LogOrder) -> None:
    cli = Cli(database)
    result = cli.run(
        "demo", "--seconds", "2", "--writers", "4", "--order", order, "--no-spark", "--json"
    )
    assert result.code == 0, result
    outcome = result.document()
    reader, naive = outcome["reader"], outcome["naive"]
    assert reader["read"] == reader["committed"] == outcome["written"]["committed"] > 0
    assert outcome["written"]["rolled_back"] > 0
    # The contrast is real: what is read to the horizon would have been lost without it.
    assert naive["lost"] > 0
    assert len(list(Milepost(database, schema=SCHEMA).read())) == reader["committed"]
    assert outcome["balances"]["wrong"] == 0
    with db.connect(database) as conn:
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


def test_the_demo_starts_over_and_serves_the_dashboard_while_it_runs(
    directory: Path, tmp_path: Path
) -> None:
    """On an embedded server, which a demo stops if it has started it."""
    arguments = (
        "demo",
        "--seconds",
        "0.5",
        "--writers",
        "2",
        "--no-spark",
        "--directory",
        str(directory),
    )
    result = Cli("").run(*arguments)
    assert result.code == 0, result
    assert "ok: nothing was lost, doubled or out of order" in result.stdout
    program = re.search(rf"in the browser: (\S+) ui --schema {SCHEMA}", result.stderr)
    assert program is not None
    assert shutil.which(program[1]) is not None, "it cannot be typed as it is shown"
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert not EmbeddedServer(directory).is_running()
    EmbeddedServer(directory).start()
    # It waits for the browser that it opens: whoever asked by himself might come after its end.
    browser, page = tmp_path / "browser", tmp_path / "page.html"
    browser.write_text(BROWSER.format(python=sys.executable, page=str(page)))
    browser.chmod(0o755)
    with Cli("", {"DISPLAY": ":0", "BROWSER": str(browser)}).start(*arguments, "--ui") as demo:
        shown, rest = demo.communicate(timeout=120)
    assert demo.returncode == 0
    assert "Overview · Milepost" in page.read_text("utf-8")
    assert re.search(r"the dashboard is at http://127\S+", rest)
    assert f"milepost ui --schema {SCHEMA}" in rest
    assert "ok: nothing was lost, doubled or out of order" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert EmbeddedServer(directory).is_running()


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
