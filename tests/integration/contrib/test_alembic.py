from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Column, Connection, Integer, MetaData, Table, create_engine, text

from milepost import Milepost
from milepost.contrib.alembic import include_name, include_object, leave_alone
from tests.integration.drivers.kinds import sqlalchemy_url


@pytest.fixture(params=["append"])
def order(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    engine = create_engine(sqlalchemy_url(url))
    with engine.connect() as connection:
        connection.execute(text("create schema theirs create table old (n integer)"))
        yield connection
    engine.dispose()


def orders() -> MetaData:
    metadata = MetaData()
    Table("orders", metadata, Column("id", Integer, primary_key=True))
    return metadata


def differences(connection: Connection, metadata: MetaData, **options: Any) -> set[tuple[str, str]]:
    """What autogenerate would do to which table."""
    context = MigrationContext.configure(connection, opts={"include_schemas": True, **options})
    return {
        (found[0], found[1].fullname)
        for found in compare_metadata(context, metadata)
        if isinstance(found, tuple) and found[0].endswith("_table")
    }


# Where our tables are reflected: Alembic passes an option on that SQLAlchemy 2.1 does not know.
reflecting = pytest.mark.filterwarnings("ignore:Can't validate argument 'dialect_options'")
WANTED = {("add_table", "orders"), ("remove_table", "theirs.old")}


@reflecting
def test_without_the_hooks_our_tables_would_be_dropped(connection: Connection) -> None:
    assert ("remove_table", "milepost.messages") in differences(connection, orders())


@reflecting
@pytest.mark.parametrize(
    "options",
    [
        leave_alone(),
        {"include_name": include_name},
        {"include_object": include_object},
    ],
)
def test_the_rest_is_compared_as_before(connection: Connection, options: Any) -> None:
    assert differences(connection, orders(), **options) == WANTED


def test_a_table_of_ours_that_the_program_has_reflected_is_left_alone(
    connection: Connection,
) -> None:
    metadata = orders()
    Table("messages", metadata, Column("mine", Integer), schema="milepost")
    assert differences(connection, metadata, **leave_alone()) == WANTED


def test_another_schema_and_hooks_of_the_program(url: str, connection: Connection) -> None:
    Milepost(url, schema="events").migrate()

    def mine(name: str | None, type_: str, parents: Any) -> bool:
        return not (type_ == "schema" and name in ("theirs", "milepost"))

    hooks = leave_alone("events", include_name=mine, include_object=lambda *_: True)
    assert differences(connection, orders(), **hooks) == {("add_table", "orders")}
