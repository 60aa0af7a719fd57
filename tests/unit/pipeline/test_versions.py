from __future__ import annotations

import pytest

from milepost import Append, ToLog
from milepost.errors import OtherVersionActive, UnknownVersion, VersionInUse
from milepost.pipeline.definition import PipelineOptions
from milepost.pipeline.versions import (
    Version,
    version_to_fill,
    version_to_return_to,
    version_to_run,
)

BEGUN, KEPT, ACTIVE = "begun", "kept", "active"


def options(code: int) -> PipelineOptions:
    return PipelineOptions("p", Append("t"), version=code)


def known(*versions: tuple[int, int, str]) -> list[Version]:
    return [Version(v, c, s == ACTIVE, s != BEGUN, 0, None) for v, c, s in versions]


def test_a_built_version_keeps_the_number_of_its_code() -> None:
    built = options(2).as_built(5).as_built(6)
    assert (built.version, built.code, built.key.version) == (6, 2, 6)


@pytest.mark.parametrize(
    ("code", "versions", "expected"),
    [
        (1, [], 1),
        (3, [], 3),
        (1, [(1, 1, ACTIVE)], 1),
        (1, [(1, 1, KEPT), (2, 1, ACTIVE)], 2),
        (2, [(1, 1, KEPT), (2, 2, ACTIVE), (3, 2, BEGUN)], 2),
    ],
)
def test_a_driver_runs_the_active_version_of_its_code(
    code: int, versions: list[tuple[int, int, str]], expected: int
) -> None:
    assert version_to_run(options(code), known(*versions)) == expected


@pytest.mark.parametrize(
    ("code", "versions", "advice"),
    [
        (2, [(1, 1, ACTIVE)], "Version 2 is not built yet. Run: milepost pipelines rebuild p"),
        (2, [(1, 1, ACTIVE), (2, 2, BEGUN)], "Version 2 is not built yet"),
        (1, [(2, 2, ACTIVE)], "This code is the older one"),
        (1, [(1, 1, KEPT), (2, 2, ACTIVE)], "rollback p --to-version 1"),
        (2, [(1, 1, ACTIVE), (2, 2, KEPT)], "rollback p --to-version 2"),
        (1, [(1, 1, BEGUN)], "no version of it is active yet"),
    ],
)
def test_a_driver_of_other_code_is_told_what_to_do(
    code: int, versions: list[tuple[int, int, str]], advice: str
) -> None:
    with pytest.raises(OtherVersionActive, match=advice):
        version_to_run(options(code), known(*versions))


def test_a_sink_without_a_view_runs_the_version_of_the_code() -> None:
    to_log = PipelineOptions("p", ToLog("t"), version=2)
    assert version_to_run(to_log, known((1, 1, ACTIVE))) == 2


@pytest.mark.parametrize(
    ("code", "versions", "wanted", "expected"),
    [
        (1, [], None, 1),
        (4, [(1, 1, ACTIVE)], None, 4),
        (1, [(1, 1, ACTIVE)], None, 2),
        (2, [(1, 1, KEPT), (5, 2, ACTIVE)], None, 6),
        (2, [(1, 1, ACTIVE), (3, 2, BEGUN)], None, 3),
        (2, [(1, 1, ACTIVE), (3, 2, BEGUN)], 3, 3),
        (2, [(1, 1, ACTIVE), (3, 1, BEGUN)], None, 4),
        (2, [(1, 1, ACTIVE), (3, 2, BEGUN)], 9, 9),
    ],
)
def test_a_rebuild_fills_a_new_version_or_goes_on_with_its_own(
    code: int, versions: list[tuple[int, int, str]], wanted: int | None, expected: int
) -> None:
    assert version_to_fill(options(code), known(*versions), wanted) == expected


@pytest.mark.parametrize(
    ("version", "reason"), [(1, "kept"), (2, "the active one"), (3, "begun by code of version 1")]
)
def test_a_rebuild_refuses_a_version_in_use(version: int, reason: str) -> None:
    there_are = known((1, 1, KEPT), (2, 2, ACTIVE), (3, 1, BEGUN))
    with pytest.raises(VersionInUse, match=reason):
        version_to_fill(options(2), there_are, version)


def test_a_rollback_goes_to_the_highest_kept_version_below_or_where_it_is_told() -> None:
    there_are = known((1, 1, KEPT), (2, 1, KEPT), (3, 2, ACTIVE), (4, 2, KEPT), (5, 2, BEGUN))
    assert version_to_return_to("p", there_are, None) == 2
    assert version_to_return_to("p", there_are, 4) == 4
    for wanted in (3, 5, 6):
        with pytest.raises(UnknownVersion, match="There are: 1, 2, 4"):
            version_to_return_to("p", there_are, wanted)
    with pytest.raises(UnknownVersion, match="nothing below the active version"):
        version_to_return_to("p", known((1, 1, ACTIVE)), None)
