"""What may change in a target that is in use: new columns, and types that hold more. Pure."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.pipeline.write.column_types import Column

# Every value of the first is the same value of the others, and compares as before. So not integers
# that become floating-point numbers or decimals, nor dates that become timestamps.
_WIDER = {
    "smallint": ("integer", "bigint"),
    "integer": ("bigint",),
    "real": ("double precision",),
}
_NUMERIC = re.compile(r"numeric(?:\((\d+),(-?\d+)\))?")
_VARCHAR = re.compile(r"character varying(?:\(\d+\))?")


@dataclass(frozen=True, slots=True)
class Existing:
    """A column of the table."""

    name: str
    type: str
    is_required: bool  # an inserted row must have a value for it
    is_supplied: bool  # the server has a value for it: a default, an identity, generated


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why the table needs a rebuild. None: there is no such column."""

    column: str
    wanted: str | None
    found: str | None
    renamed: str | None = None  # the new column that may be this one by another name


@dataclass(frozen=True, slots=True)
class Changes:
    """What has to change in the table. The columns are those of the output."""

    added: tuple[Column, ...] = ()
    widened: tuple[Column, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.widened)

    def __str__(self) -> str:
        words = [f"the new column {column.name!r} ({column.type})" for column in self.added]
        words += [f"the type {column.type} for {column.name!r}" for column in self.widened]
        return ", ".join(words)


def is_wider(type_: str, than: str) -> bool:
    """Whether a column of type `than` keeps all its values if it becomes one of `type_`."""
    if type_ in _WIDER.get(than, ()):
        return True
    if type_ == "text":
        return _VARCHAR.fullmatch(than) is not None
    more, less = _NUMERIC.fullmatch(type_), _NUMERIC.fullmatch(than)
    if more is None or less is None or less[1] is None:
        return False
    if more[1] is None:
        return True
    scale, before_point = int(more[2]), int(more[1]) - int(more[2])
    is_enough = scale >= int(less[2]) and before_point >= int(less[1]) - int(less[2])
    return is_enough and type_ != than


def changes_for(
    columns: Sequence[Column], existing: Sequence[Existing], fixed: Container[str]
) -> Changes | Misfit:
    """What the table needs for these columns, or the first one that only a rebuild can give it.
    `fixed`: the columns that cannot be added later, because they identify rows.

    A table may have more columns, if they are optional, and wider types: the code before the last
    change still runs. But if the table gets a new column while another one is no longer written,
    this may be a new name for it: then a rebuild must fill it.
    """
    types = {column.name: column.type for column in existing}
    added = tuple(column for column in columns if column.name not in types)
    given = {column.name for column in columns}
    for column in columns:
        found = types.get(column.name)
        is_fit = column.name not in fixed if found is None else _fits(column.type, found)
        if not is_fit:
            return Misfit(column.name, column.type, found)
    for left in existing:
        if left.name not in given and left.is_required:
            return Misfit(left.name, None, f"{left.type} not null")
        if left.name not in given and added and not left.is_supplied:
            return Misfit(left.name, None, left.type, added[0].name)
    return Changes(added, tuple(c for c in columns if is_wider(c.type, types.get(c.name, ""))))


def _fits(wanted: str, found: str) -> bool:
    return wanted == found or is_wider(wanted, found) or is_wider(found, wanted)
