from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost.cli.line_input import Line, line_batches


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    source, sink = os.pipe()
    yield source, sink
    os.close(source)


def test_batches_are_full_and_blank_lines_count_but_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"1\n\n3\n4\n \n6\n7")
    with file.open("rb") as opened:
        batches = list(line_batches(opened.fileno(), 2))
    assert batches == [
        [Line(1, b"1"), Line(3, b"3")],
        [Line(4, b"4"), Line(6, b"6")],
        [Line(7, b"7")],
    ]


def test_without_a_limit_everything_is_one_batch(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"x\n" * 100_000)
    with file.open("rb") as opened:
        assert [len(batch) for batch in line_batches(opened.fileno(), None)] == [100_000]


def test_a_pause_ends_a_batch_but_not_a_line(pipe: tuple[int, int]) -> None:
    source, sink = pipe
    batches = line_batches(source, 10)
    os.write(sink, b"1\n2\nhalf ")
    assert next(batches) == [Line(1, b"1"), Line(2, b"2")]
    os.write(sink, b"a line\n")
    assert next(batches) == [Line(3, b"half a line")]
    os.close(sink)
    assert list(batches) == []


def test_a_pause_does_not_end_what_has_no_limit() -> None:
    """The writer pauses for longer than a batch with a limit would wait."""
    writing = "import time; print(1, flush=True); time.sleep(0.3); print(2)"
    with subprocess.Popen([sys.executable, "-c", writing], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        batches = list(line_batches(writer.stdout.fileno(), None))
    assert batches == [[Line(1, b"1"), Line(2, b"2")]]


def test_nothing_makes_no_batch() -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    assert list(line_batches(null, 10)) == []
    os.close(null)
