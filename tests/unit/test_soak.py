from __future__ import annotations

from pathlib import Path

import pytest

from tests.parallel import WITHOUT_SESSION, share_of, worker_count
from tests.soak import GROUPS, PARTS, Figures, Outcome, read_results, selected


def test_parts_are_named_alone_or_as_groups_and_run_once() -> None:
    assert selected(["chaos", "queue", "demo"]) == [*GROUPS["chaos"], "demo"]
    assert selected(["all"]) == list(PARTS)


def test_an_unknown_part_is_refused_with_those_there_are() -> None:
    with pytest.raises(SystemExit, match=r"no part 'chaoss'.*There are: chaos, postgres"):
        selected(["chaoss"])


def test_what_the_tests_noted_is_added_up(tmp_path: Path) -> None:
    file = tmp_path / "results.xml"
    noted = '<properties><property name="kills" value="{}"/></properties>'
    cases = "".join(f"<testcase>{noted.format(n)}</testcase>" for n in (2, 3))
    suite = f'<testsuite tests="4" failures="1" errors="0" skipped="1">{cases}</testsuite>'
    file.write_text(f"<testsuites>{suite}</testsuites>")
    assert read_results(file) == ({"kills": 5}, "2 passed, 1 failed, 1 skipped")


def test_a_line_shows_every_figure() -> None:
    line = str(Outcome("log", 61.4, "5 passed", {"messages": 100_066, "kills": 71}))
    figures = "messages 100,066 kills 71 lost 0 doubled 0 seconds 61"
    assert line.split() == f"log {figures} 5 passed".split()


def test_a_figure_without_a_column_is_refused() -> None:
    with pytest.raises(ValueError, match="no column for jobs"):
        Figures(lambda *_: None)(jobs=1)


def test_spark_tests_are_two_shares_and_other_files_one_each() -> None:
    first = [share_of(f"tests/pipeline/{path}::test_x") for path in ("test_a.py", "c/test_b.py")]
    second = [
        share_of(f"tests/pipeline/{path}.py::x") for path in ("rebuild/test_a", "source/test_b")
    ]
    assert [len(set(first)), len(set(second)), len({*first, *second})] == [1, 1, 2]
    for path in ("tests/sql/test_a.py", *(f for f in WITHOUT_SESSION if f.endswith(".py"))):
        assert share_of(f"{path}::test_x[1]") == path
        assert path.startswith("tests/sql") or Path(path).is_file()


@pytest.mark.parametrize("arguments", [["tests/unit"], ["tests/sql/test_plans.py::test_x"]])
def test_what_is_over_soon_gets_no_workers(arguments: list[str]) -> None:
    assert worker_count(arguments) == 0
    assert worker_count([*arguments, "tests/integration"]) > 1
