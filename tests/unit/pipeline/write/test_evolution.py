"""What may change in a target that is in use."""

from __future__ import annotations

import pytest

from milepost.pipeline.write.column_types import Column
from milepost.pipeline.write.evolution import Changes, Existing, Misfit, changes_for, is_wider

ID, COUNT = Column("id", "bigint"), Column("n", "integer")


def existing(*columns: Column) -> list[Existing]:
    return [Existing(c.name, c.type, is_required=False, is_supplied=False) for c in columns]


@pytest.mark.parametrize(
    ("than", "wider"),
    [
        ("smallint", "integer"),
        ("smallint", "bigint"),
        ("integer", "bigint"),
        ("real", "double precision"),
        ("numeric(10,2)", "numeric(12,2)"),
        ("numeric(10,2)", "numeric(12,4)"),
        ("numeric(10,2)", "numeric"),
        ("character varying(20)", "text"),
        ("character varying", "text"),
    ],
)
def test_a_type_that_holds_more(than: str, wider: str) -> None:
    assert is_wider(wider, than)
    assert not is_wider(than, wider)


@pytest.mark.parametrize(
    ("than", "other"),
    [
        ("integer", "integer"),
        ("numeric(10,2)", "numeric(10,2)"),
        ("numeric(10,2)", "numeric(10,3)"),  # a digit less before the point
        ("numeric(10,2)", "numeric(12,1)"),
        ("numeric", "numeric(38,10)"),
        ("integer", "double precision"),
        ("integer", "numeric(38,10)"),
        ("bigint", "text"),
        ("date", "timestamp with time zone"),
        ("timestamp without time zone", "timestamp with time zone"),
        ("character(3)", "text"),
        ("integer[]", "bigint[]"),
        ("jsonb", "text"),
    ],
)
def test_a_type_that_means_something_else(than: str, other: str) -> None:
    assert not is_wider(other, than)


def test_new_columns_are_added_and_types_widened() -> None:
    new, wide = Column("new", "text"), Column("n", "bigint")
    assert changes_for([ID, new, wide], existing(ID, COUNT), ["id"]) == Changes((new,), (wide,))
    assert not changes_for([ID, COUNT], existing(ID, COUNT), ["id"])


def test_code_of_before_the_change_still_fits() -> None:
    later = existing(ID, Column("n", "bigint"), Column("new", "text"))
    assert changes_for([ID, COUNT], later, ["id"]) == Changes()


@pytest.mark.parametrize(
    ("columns", "misfit"),
    [
        ([ID, Column("n", "text")], Misfit("n", "text", "integer")),
        ([ID, COUNT, Column("key", "text")], Misfit("key", "text", None)),
        ([ID, Column("count", "integer")], Misfit("n", None, "integer", "count")),
    ],
    ids=["another type", "of the key", "another name"],
)
def test_what_needs_a_rebuild(columns: list[Column], misfit: Misfit) -> None:
    assert changes_for(columns, existing(ID, COUNT), ["id", "key"]) == misfit


def test_a_column_that_the_server_fills_is_no_former_name() -> None:
    filled = Existing("number", "bigint", is_required=False, is_supplied=True)
    new = Column("new", "text")
    assert changes_for([ID, new], [*existing(ID), filled], ["id"]) == Changes((new,))


def test_a_column_that_must_have_a_value_is_not_left_out() -> None:
    needed = Existing("region", "text", is_required=True, is_supplied=False)
    found = changes_for([ID], [*existing(ID), needed], ["id"])
    assert found == Misfit("region", None, "text not null")
