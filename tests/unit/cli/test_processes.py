"""What each process of `milepost run --processes N` is to run."""

from __future__ import annotations

import pytest
import typer

from milepost import Files, Milepost, TakenJob
from milepost.cli.commands.run import child_commands


@pytest.fixture
def mp() -> Milepost:
    return Milepost("postgresql://nowhere")


def work(job: TakenJob) -> None: ...


def test_all_run_the_same_where_nothing_needs_spark(mp: Milepost) -> None:
    mp.worker("a")(work)
    same = ["run", "app:mp", "--until", "stopped"]
    assert child_commands("app:mp", mp, None, 3, ["--until", "stopped"]) == [same] * 3
    (first, second) = child_commands("app:mp", mp, ["a"], 2, [])
    assert first == second == ["run", "app:mp", "--only", "a"]


def test_what_runs_on_spark_runs_in_the_first_one(mp: Milepost) -> None:
    mp.worker("a")(work)
    mp.pipeline("p", sink=Files("/tmp/out"))(lambda frame: frame)  # noqa: S108 - not written to
    assert child_commands("app:mp", mp, None, 3, []) == [
        ["run", "app:mp"],
        ["run", "app:mp", "--only", "a"],
        ["run", "app:mp", "--only", "a"],
    ]
    with pytest.raises(typer.BadParameter, match="nothing to share"):
        child_commands("app:mp", mp, ["p"], 2, [])
