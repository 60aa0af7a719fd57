"""What `milepost_url` is: a URL that libpq, SQLAlchemy and asyncpg read the same way."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import make_url

from milepost.testing.databases import as_url

SOCKET = {"host": "/run/milepost-1/s", "user": "postgres", "dbname": "milepost_test_1"}
SERVER = {"host": "db", "port": "5433", "user": "a@b", "password": "p:/%?#", "dbname": "x/y"}


@pytest.mark.parametrize(
    "given",
    [
        SOCKET,
        SERVER,
        SERVER | {"sslmode": "require", "application_name": "two words"},
        {"host": "::1", "dbname": "x"},
        {"host": "a,b", "port": "1,2", "dbname": "x"},
        {"dbname": "x"},
    ],
)
def test_a_url_says_what_libpq_says(given: dict[str, str]) -> None:
    url = as_url(" ".join(f"{name}='{value}'" for name, value in given.items()))
    assert conninfo_to_dict(url) == given
    read = make_url(url)
    assert (read.username, read.password) == (given.get("user"), given.get("password"))
    assert read.database == given["dbname"]
    assert (read.host or read.query["host"] if "host" in given else None) == given.get("host")


def test_alembic_finds_nothing_to_replace() -> None:
    url = as_url(" ".join(f"{name}='{value}'" for name, value in SOCKET.items()))
    assert url == "postgresql://postgres@/milepost_test_1?host=/run/milepost-1/s"
