"""Reads are shared and limited, by a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import psycopg
import pytest

from milepost import db
from milepost.ui.observed import board as boards
from milepost.ui.observed.board import Board, patiently
from milepost.ui.observed.pace import KEPT_FOR_PAGES, QUERIES_A_SECOND, Pace


@dataclass
class FakeConnection:
    closed: bool = False
    broken: bool = False
    cursor_factory: Any = None


@dataclass
class Bench:
    """A board without a server, and its clock."""

    now: float = 100.0
    reads: int = 0
    opened: list[FakeConnection] = field(default_factory=list)

    @contextmanager
    def open(self) -> Iterator[Any]:
        self.opened.append(FakeConnection())
        made = self.opened[-1]
        yield made
        made.closed = True

    def rest(self, seconds: float) -> None:
        self.now += seconds

    @cached_property
    def pace(self) -> Pace:
        return Pace(clock=lambda: self.now, rest=self.rest)

    def read(self, conn: Any, schema: str) -> int:
        self.pace.take_turn()  # as the cursor of a real connection does
        self.reads += 1
        return self.reads


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(boards, "limited", lambda *_: nullcontext())
    monkeypatch.setattr(db, "acting", lambda *_: nullcontext())
    return Bench()


@pytest.fixture
def board(bench: Bench) -> Board:
    return Board(bench.open, "milepost", bench.pace, clock=lambda: bench.now)


def test_within_a_second_the_answer_is_the_same(board: Board, bench: Bench) -> None:
    assert board.look("a", bench.read) == 1
    bench.now += 0.9
    assert board.look("a", bench.read) == 1
    bench.now += 0.1
    assert board.look("a", bench.read) == 2
    assert len(bench.opened) == 1


def test_beyond_the_limit_the_last_answer_is_given(board: Board, bench: Bench) -> None:
    board.look("a", bench.read)
    bench.now += 0.99
    for number in range(QUERIES_A_SECOND - 1):
        board.look(number, bench.read)
    assert board.look("a", bench.read) == 1
    bench.now += 1.0
    assert board.look("a", bench.read) == QUERIES_A_SECOND + 1


def test_who_asks_first_waits_for_a_turn(board: Board, bench: Bench) -> None:
    for number in range(QUERIES_A_SECOND):
        board.look(number, bench.read)
    assert board.look("new", bench.read) == QUERIES_A_SECOND + 1
    assert bench.now == pytest.approx(101.0)


def test_a_lost_connection_is_opened_again(board: Board, bench: Bench) -> None:
    def lose(conn: Any, schema: str) -> int:
        conn.broken = True
        raise psycopg.OperationalError("the server is gone")

    with pytest.raises(psycopg.OperationalError):
        board.look("a", lose)
    assert board.look("a", bench.read) == 1
    assert len(bench.opened) == 2


def test_an_error_does_not_close_a_connection_that_works(board: Board, bench: Bench) -> None:
    def refuse(conn: Any, schema: str) -> int:
        raise psycopg.ProgrammingError("no")

    with pytest.raises(psycopg.ProgrammingError):
        board.look("a", refuse)
    board.look("a", bench.read)
    assert len(bench.opened) == 1


def test_answers_that_nobody_asks_for_are_forgotten(board: Board, bench: Bench) -> None:
    board.look("old", bench.read)
    bench.now += boards.KEPT_SECONDS + 1
    board.look("new", bench.read)
    assert list(board._answers) == ["new"]


def test_who_is_in_no_hurry_leaves_room_for_pages(bench: Bench) -> None:
    for _ in range(QUERIES_A_SECOND - KEPT_FOR_PAGES):
        bench.pace.take_turn(is_patient=True)
    assert (bench.now, bench.pace.has_room()) == (100.0, True)
    bench.pace.take_turn()
    assert (bench.now, bench.pace.has_room()) == (100.0, False)
    bench.pace.take_turn(is_patient=True)
    assert bench.now == pytest.approx(101.0)


def test_a_page_comes_before_a_stream(board: Board, bench: Bench) -> None:
    """While a page waits, streams do; while a stream waits, it holds nothing that pages need."""
    order: list[object] = []

    def page(seconds: float) -> None:
        bench.rest(seconds)
        order.append(board.look("page", bench.read))

    with bench.pace.hurried():
        assert not bench.pace.has_room(is_patient=True)
        assert bench.pace.has_room()
    for _ in range(QUERIES_A_SECOND - KEPT_FOR_PAGES):
        bench.pace.take_turn()
    bench.pace.rest = page  # as of another thread, while the stream waits for its turn
    with patiently():
        order.append(board.look("stream", bench.read))
    assert order == [1, 2]


def test_a_stream_shows_the_last_answer_while_a_page_waits(board: Board, bench: Bench) -> None:
    board.look("a", bench.read)
    bench.now += 1.0
    with patiently(), bench.pace.hurried():
        assert board.look("a", bench.read) == 1
    with patiently():
        assert board.look("a", bench.read) == 2


def test_what_reads_after_the_end_leaves_no_connection_open(board: Board, bench: Bench) -> None:
    board.look("a", bench.read)
    board.close()
    assert board.look("b", bench.read) == 2
    assert [conn.closed for conn in bench.opened] == [True, True]
