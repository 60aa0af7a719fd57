"""Checkpoints are the same in both orders, so one will do; and many cases share a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from milepost import db
from milepost.db import Connection
from milepost.sql import LogOrder
from tests.server import TestServer


@pytest.fixture
def order() -> LogOrder:
    return "append"


@pytest.fixture(scope="module")
def shared_conn(server: TestServer, template: Callable[[LogOrder], str]) -> Iterator[Connection]:
    """For tests that keep to a checkpoint of their own."""
    name = server.create_database("checkpoints", template=template("append"))
    with db.connect(server.url(name)) as conn:
        yield conn
    server.drop_database(name)
