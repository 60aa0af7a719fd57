"""What an operator does by a form: checked, confirmed, run, and recorded, at one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.ui import audit

if TYPE_CHECKING:
    from milepost.db import Connection


@dataclass(frozen=True, slots=True)
class Action:
    """`run(conn, schema, fields)` returns the message that is then shown. `fields` are those of the
    form; a field that was sent several times has its values joined by commas.

    `confirm`: what is asked before, with fields in braces; None: it is not destructive.
    `subject_field`: the field whose value the audit names as the subject. `in_transaction`: run and
    recorded in one transaction; else recorded after it, for what must commit by itself."""

    name: str
    label: str
    run: Callable[[Connection, str, Mapping[str, str]], str]
    confirm: str | None = None
    subject_field: str = "name"
    in_transaction: bool = True

    def question(self, fields: Mapping[str, str]) -> str:
        return (self.confirm or "").format_map(_Blank(fields))

    def perform(self, conn: Connection, schema: str, who: str, fields: Mapping[str, str]) -> str:
        """An action that fails is not recorded: nothing was changed."""
        if not self.in_transaction:
            message = self.run(conn, schema, fields)
            self._record(conn, schema, who, fields)
            return message
        with conn.transaction():
            message = self.run(conn, schema, fields)
            self._record(conn, schema, who, fields)
        return message

    def _record(self, conn: Connection, schema: str, who: str, fields: Mapping[str, str]) -> None:
        audit.record(conn, schema, who, self.name, fields.get(self.subject_field, ""), fields)


class _Blank(dict[str, str]):
    """A field that the form lacks is empty in the question."""

    def __missing__(self, key: str) -> str:
        return ""
