"""What a data engineer reads when a pipeline's code is wrong: a sentence or two, with the name of
the pipeline and the line of code."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator

import pytest
from typer.testing import Result

from milepost import Milepost
from milepost.errors import BadMessage, FunctionFailed, InvalidOutput, UnknownColumn
from tests.pipeline.running import place, rows

pytestmark = [pytest.mark.parametrize("order", ["append"]), pytest.mark.usefixtures("spark")]
APPLICATION = "tests.pipeline.broken"


@pytest.fixture
def broken(in_process: Callable[..., Result], mp: Milepost) -> Iterator[Callable[..., Result]]:
    """Runs one of the pipelines."""
    place(mp, 0, 2)

    def run(name: str, *words: str) -> Result:
        return in_process(
            "run", f"{APPLICATION}:mp", "--only", name, "--until", "caught_up", *words
        )

    levels = {each: logging.getLogger(each).level for each in ("milepost.stacks", "")}
    yield run
    for each, level in levels.items():
        logging.getLogger(each).setLevel(level)
    sys.modules.pop(APPLICATION, None)


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("nothing", InvalidOutput, "its output is None: its function must return a DataFrame."),
        ("listed", InvalidOutput, "its output is of type list: its function must return"),
        (
            "misspelt",
            UnknownColumn,
            (
                "its function uses the column 'totl' (broken.py, line 35, in misspelt: return "
                'parsed(messages).select("customer", "totl")), which is not there. There are: '
            ),
        ),
        (
            "lacking",
            UnknownColumn,
            (
                '\'key\' (broken.py, line 40, in lacking: return messages.select("key", "data")), '
                "which its option columns leaves out. Pass columns=['data', 'key']."
            ),
        ),
        pytest.param(
            "inverse",
            BadMessage,
            "makes its batch fail: ZeroDivisionError: integer division or modulo by zero "
            "(broken.py, line 17, in inverse_of: return 100 // total",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            "streamed",
            FunctionFailed,
            "its code raised ZeroDivisionError: integer division or modulo by zero (broken.py, "
            "line 17, in inverse_of: return 100 // total",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            "cast",
            BadMessage,
            "[CAST_INVALID_INPUT] The value 'c0' of the type \"STRING\"",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_an_error_is_told_in_a_line_with_the_pipelines_name(
    broken: Callable[..., Result], mp: Milepost, name: str, kind: type[Exception], said: str
) -> None:
    result = broken(name)
    assert result.exit_code == 1
    (line,) = [x for x in result.stderr.splitlines() if x.startswith("error: ")]
    assert line.startswith(f"error: Pipeline {name!r}: ")
    assert said in line
    assert "Traceback" not in result.stderr
    assert "\tat " not in result.stderr
    ((state, error),) = rows(mp, "select state, last_error from milepost.pipelines")
    assert state == "failed"
    assert str(error).startswith(f"{kind.__name__}: Pipeline {name!r}: ")
    assert "\n" not in str(error)


def test_verbose_shows_what_spark_raised(broken: Callable[..., Result]) -> None:
    result = broken("misspelt", "--verbose")
    assert "AnalysisException" in result.stderr
    assert "error: Pipeline 'misspelt': " in result.stderr
