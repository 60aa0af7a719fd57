"""What pages have in common when they read: filters from the query, and what a role may not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from milepost.errors import NotPermitted

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.ui.drawn.page import View

T = TypeVar("T")


def permitted(view: View, key: object, reader: Callable[[Connection, str], T]) -> T | None:
    """None: the role of the dashboard may not see it. The rest of the page is shown."""
    try:
        return view.board.look(key, reader)
    except NotPermitted:
        return None


def given(view: View, name: str) -> str | None:
    """A value of the query; None if it is missing, empty, or nothing that PostgreSQL can store."""
    found = view.query.get(name, "")
    return found if found and "\0" not in found else None


def given_id(view: View, name: str) -> int | None:
    return as_id(view.query.get(name, ""))


def as_id(text: str) -> int | None:
    """Within what PostgreSQL calls bigint; None for anything else."""
    is_number = text.isascii() and text.isdigit() and len(text) < 20
    return int(text) if is_number and int(text) < 2**63 else None
