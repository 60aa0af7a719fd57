"""Tests that run with every kind of object that `append` and `put` take."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.drivers.kinds import KINDS, Kind

Opening = Callable[..., Kind]


@pytest.fixture(params=["append"])
def order(request: pytest.FixtureRequest) -> str:
    """The drivers know nothing of the log's order."""
    return str(request.param)


@pytest.fixture(params=KINDS, ids=[kind.__name__ for kind in KINDS])
def opening(request: pytest.FixtureRequest, url: str) -> Iterator[Opening]:
    """Opens one of a kind; with `autocommit=True`, one whose every statement is a transaction."""
    opened: list[Kind] = []

    def make(*, autocommit: bool = False) -> Kind:
        opened.append(request.param(url, autocommit=autocommit))
        return opened[-1]

    yield make
    for kind in opened:
        kind.dispose()


@pytest.fixture
def kind(opening: Opening) -> Kind:
    return opening()
