from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from milepost.errors import SparkMasterUnreachable
from milepost.pipeline.spark.master import addresses, refuse_unreachable


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("spark://one:7077", [("one", 7077)]),
        ("spark://one:7077,two:7078", [("one", 7077), ("two", 7078)]),
        ("spark://one", [("one", 7077)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("sc://server:15002/;token=secret", [("server", 15002)]),
        ("sc://server", [("server", 15002)]),
        ("local[*]", []),
        ("yarn", []),
        ("k8s://https://kubernetes.default.svc:443", []),
        ("", []),
    ],
)
def test_where_a_cluster_should_be(master: str, expected: list[tuple[str, int]]) -> None:
    assert addresses(master) == expected


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def test_one_master_that_answers_is_enough(listening: int, closed: int) -> None:
    refuse_unreachable(f"spark://127.0.0.1:{closed},127.0.0.1:{listening}")
    refuse_unreachable("local[2]")


def test_a_master_that_nobody_reaches_is_refused_in_one_line(closed: int) -> None:
    with pytest.raises(SparkMasterUnreachable) as refused:
        refuse_unreachable(f"spark://127.0.0.1:{closed}")
    said = str(refused.value)
    assert f"spark://127.0.0.1:{closed} cannot be reached" in said
    assert "Connection refused" in said
    assert "\n" not in said


def test_a_token_is_not_shown(closed: int) -> None:
    with pytest.raises(SparkMasterUnreachable) as refused:
        refuse_unreachable(f"sc://127.0.0.1:{closed}/;token=secret")
    assert "secret" not in str(refused.value)
