"""What a plan says about the next run, from what is known of target and versions."""

from __future__ import annotations

import pytest

from milepost import Append, ToLog
from milepost.pipeline.definition import PipelineOptions
from milepost.pipeline.preview.next_run import changes
from milepost.pipeline.sinks import Sink
from milepost.pipeline.versions import Version
from milepost.pipeline.write import Changes, Column, Fit, TargetNow

COLUMNS = (Column("day", "date"), Column("total", "bigint"))
ACTIVE = Version(1, 1, is_active=True, is_built=True, epoch=0, checkpoint=None)
MADE = {"day": "date", "total": "bigint"}


def said(sink: Sink, version: int, known: list[Version], fit: Fit) -> list[str]:
    return list(changes(PipelineOptions("p", sink, version=version), known, version, fit))


def target(columns: dict[str, str], shown: str | None = "days__v1") -> TargetNow:
    return TargetNow("public.days", "public.days__v1", shown, columns)


@pytest.mark.parametrize(
    ("now", "needed", "expected"),
    [
        (target(MADE), Changes(), []),
        (
            target({}, None),
            None,
            [
                "creates the table public.days__v1 (day date, total bigint)",
                "creates the view public.days of public.days__v1",
            ],
        ),
        (
            target({"day": "date"}),
            Changes(added=COLUMNS[1:]),
            ["adds the column total bigint to public.days__v1"],
        ),
        (
            target({"day": "date", "total": "integer"}),
            Changes(widened=COLUMNS[1:]),
            ["changes the column total of public.days__v1 from integer to bigint"],
        ),
    ],
)
def test_changes_of_the_target(now: TargetNow, needed: Changes | None, expected: list[str]) -> None:
    fit = Fit(COLUMNS, now, stored=COLUMNS, changes=needed)
    assert said(Append("days"), 1, [ACTIVE], fit) == expected


def test_a_first_run_registers_its_version() -> None:
    found = said(Append("days"), 1, [], Fit(COLUMNS, target(MADE), changes=Changes()))
    assert found == ["registers version 1"]


def test_without_a_table_another_version_runs_in_place_of_the_active_one() -> None:
    found = said(ToLog("echoes"), 2, [ACTIVE], Fit(COLUMNS))
    assert found == ["registers version 2", "runs version 2 in place of version 1"]
