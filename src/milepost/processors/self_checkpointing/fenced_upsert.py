"""An upsert for tables in other databases, fenced by the epoch of the claim."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from milepost.errors import StaleWrite

if TYPE_CHECKING:
    from milepost.processors.self_checkpointing.api import Trigger

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?")


class Cursor(Protocol):
    """Of any DB-API driver."""

    @property
    def rowcount(self) -> int: ...
    def executemany(self, statement: Any, rows: Any, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class FencedUpsert:
    """Writes rows, unless a later claim has written them: for PostgreSQL and SQLite, with any
    DB-API driver. The table needs a unique index on `key`, and a bigint column for the epoch.

    Keep a message's position in each row, too, and leave out the messages that a row includes: what
    a former owner wrote before the present one is in it.
    """

    table: str
    key: Sequence[str]
    columns: Sequence[str]  # besides the key and the epoch
    epoch: str = "epoch"
    placeholder: str = "%s"  # "?" for sqlite3

    def __post_init__(self) -> None:
        if not self.key:
            raise ValueError("key is empty: name the columns that tell one row from another.")
        for name in (self.table, *self._names):
            if _NAME.fullmatch(name) is None:
                raise ValueError(f"{name!r} is not a plain name of a table or column.")

    @property
    def statement(self) -> str:
        """Takes the key, the columns and the epoch, in this order."""
        names = ", ".join(self._names)
        values = ", ".join([self.placeholder] * len(self._names))
        new = ", ".join(f"{name} = excluded.{name}" for name in (*self.columns, self.epoch))
        # Not a named query: it runs in the user's database, on the user's table.
        return (
            f"insert into {self.table} as kept ({names}) values ({values}) "  # noqa: S608 - checked names
            f"on conflict ({', '.join(self.key)}) do update set {new} "
            f"where kept.{self.epoch} <= excluded.{self.epoch}"
        )

    def write(self, cursor: Cursor, trigger: Trigger, rows: Iterable[Sequence[Any]]) -> None:
        """All rows (key and columns), in the caller's transaction; `StaleWrite` if one of them is a
        later claim's, and the caller rolls back."""
        written = [(*row, trigger.epoch) for row in rows]
        if not written:
            return
        cursor.executemany(self.statement, written)
        refused = len(written) - cursor.rowcount
        if 0 < refused <= len(written):
            raise StaleWrite(
                trigger.segment.id, trigger.epoch, f"a later claim has written {refused} rows"
            )

    @property
    def _names(self) -> tuple[str, ...]:
        return (*self.key, *self.columns, self.epoch)
