"""Pipelines that keep state in Spark's directory, while their driver is killed again and again: the
results are those of a plain computation, and each message is in one row of the files. If the
directory is deleted under them, they say so and write nothing more.

What is doubled without the fences, tests/pipeline/run/test_stateful.py and
tests/pipeline/write/test_exactly_once.py show."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
import pytest

from milepost import Milepost
from tests.chaos.options import TIMEOUT_SECONDS, new_seed
from tests.chaos.pipelines.driving import (
    LAST_SECONDS,
    START_SECONDS,
    Orders,
    Processes,
    count_of,
    far_behind,
    kill_drivers,
    positions,
    wait_for_progress,
)
from tests.chaos.pipelines.names import FILES, FILES_VARIABLE, FIRSTS, TOTALS
from tests.pipeline.running import expected_per_customer, place, rows
from tests.soak import Figures
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(TIMEOUT_SECONDS + 1200),
    pytest.mark.parametrize("order", ["append"]),
]
TWICE = 2  # each order is appended so often


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILES_VARIABLE, str(tmp_path / "files"))


def test_state_is_exact_though_drivers_are_killed(
    mp: Milepost, url: str, tmp_path: Path, figures: Figures
) -> None:
    is_enough = far_behind(lambda: count_of(mp, FIRSTS))
    orders = Orders(mp, random.Random(new_seed()), is_enough, times=TWICE)
    kills = kill_drivers(orders, Processes(url, tmp_path), (TOTALS, FIRSTS))
    found = [int(str(row[0])) for row in rows(mp, "select total from firsts")]
    figures(
        messages=TWICE * orders.count,
        kills=kills,
        lost=orders.count - len(set(found)),
        doubled=len(found) - len(set(found)),
    )
    assert sorted(found) == list(range(orders.count))
    totals = rows(mp, "select customer, total, orders from totals order by customer")
    assert totals == expected(orders.count)


def test_each_message_is_in_one_row_of_the_files_though_drivers_are_killed(
    mp: Milepost, url: str, tmp_path: Path, figures: Figures
) -> None:
    is_enough = far_behind(lambda: _position(mp, FILES))
    orders = Orders(mp, random.Random(new_seed()), is_enough)
    kills = kill_drivers(orders, Processes(url, tmp_path), (FILES,))
    found = in_files(tmp_path / "files")
    appended = [int(str(row[0])) for row in rows(mp, "select position from milepost.messages")]
    figures(
        messages=len(appended),
        kills=kills,
        lost=len(appended) - len(set(found)),
        doubled=len(found) - len(set(found)),
    )
    assert sorted(found) == sorted(appended)


def test_a_directory_that_is_deleted_under_load_is_told_and_nothing_more_is_written(
    mp: Milepost, url: str, tmp_path: Path
) -> None:
    place(mp, 0, 200)
    names = (FIRSTS, FILES)
    processes = Processes(url, tmp_path)
    with processes.running("run", "stopped", *names) as process:
        wait_for_progress(mp, process, names)
        wait_until(lambda: _positions_at(mp, 200) == set(names), START_SECONDS)
        shutil.rmtree(tmp_path / "milepost", ignore_errors=True)
        place(mp, 200, 200)
        wait_until(lambda: _told(mp) == dict.fromkeys(names, True), START_SECONDS)
    before = rows(mp, "select total from firsts order by total")
    assert len(before) in (200, 400)  # a batch may have been under way
    with processes.running("run", "caught_up", *names) as again:
        assert again.wait(LAST_SECONDS) == 1
    assert rows(mp, "select total from firsts order by total") == before


def _position(mp: Milepost, name: str) -> int:
    return int(str(positions(mp).get(name, 0)))


def _positions_at(mp: Milepost, position: int) -> set[object]:
    """The pipelines that have got there."""
    return {name for name, reached in positions(mp).items() if int(str(reached)) >= position}


def _told(mp: Milepost) -> dict[object, object]:
    query = "select name, coalesce(last_error like 'StateLost: %', false) from milepost.pipelines"
    return dict(rows(mp, query))  # type: ignore[arg-type]  # pairs


def expected(count: int) -> list[tuple[object, ...]]:
    """What `totals` comes to after the orders 0 to count - 1, each of them twice."""
    once = expected_per_customer(count)
    return [(name, TWICE * int(str(n)), TWICE * int(str(orders))) for name, n, orders in once]


def in_files(directory: Path) -> list[int]:
    """The positions in the files that Spark's log of the sink names: others are of killed tasks."""
    columns = [pq.read_table(file).column("position") for file in committed(directory)]
    return [position for column in columns for position in column.to_pylist()]


def committed(directory: Path) -> list[Path]:
    """As Spark reads its log: the last compact file has everything before it."""
    log = directory / "_spark_metadata"
    batches = {int(file.name.split(".")[0]): file for file in log.iterdir() if file.name[0] != "."}
    compact = [number for number, file in batches.items() if file.name.endswith(".compact")]
    first = max(compact, default=-1)
    lines = [
        line
        for number, file in batches.items()
        if number >= first
        for line in file.read_text().splitlines()[1:]
    ]
    return [Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines if line]
