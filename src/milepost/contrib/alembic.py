"""Alembic: leave the schema of Milepost alone, which `milepost migrate` makes and changes.

With `include_schemas=True`, autogenerate compares all schemas of the database with the program's
metadata, and would drop the tables that it does not find there. In `env.py`:

    from milepost.contrib.alembic import leave_alone

    context.configure(..., include_schemas=True, **leave_alone())
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypedDict

from milepost.sql import DEFAULT_SCHEMA, check_schema_name

IncludeName: TypeAlias = Callable[[Any, Any, Any], bool]
IncludeObject: TypeAlias = Callable[[Any, Any, Any, bool, Any], bool]


class Hooks(TypedDict):
    """What `context.configure` takes."""

    include_name: IncludeName
    include_object: IncludeObject


def leave_alone(
    schema: str = DEFAULT_SCHEMA,
    *,
    include_name: IncludeName | None = None,
    include_object: IncludeObject | None = None,
) -> Hooks:
    """Both hooks for a schema of this name. The program's own are asked about everything else."""
    check_schema_name(schema)

    def name_hook(name: str | None, type_: str, parents: Mapping[str, Any]) -> bool:
        """Before anything is read: tables of the schema are not even reflected."""
        if schema == (name if type_ == "schema" else parents.get("schema_name")):
            return False
        return include_name is None or include_name(name, type_, parents)

    def object_hook(
        object_: Any, name: str | None, type_: str, reflected: bool, compare_to: Any
    ) -> bool:
        """For what is in the program's metadata, such as a table reflected from the schema."""
        if _schema_of(object_) == schema:
            return False
        return include_object is None or include_object(object_, name, type_, reflected, compare_to)

    return Hooks(include_name=name_hook, include_object=object_hook)


def _schema_of(object_: Any) -> str | None:
    """Of a table, or of the table that a column, an index or a constraint belongs to."""
    table = getattr(object_, "table", object_)
    found: str | None = getattr(table, "schema", None)
    return found


_default = leave_alone()
include_name: IncludeName = _default["include_name"]
include_object: IncludeObject = _default["include_object"]
