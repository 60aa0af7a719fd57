"""A page is a list of parts. Each part is a template with what it shows; a part that changed is
rendered again and replaced in the browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from milepost.ui.observed.board import Board
    from milepost.ui.observed.checkup import Checkup
    from milepost.ui.observed.history import History
    from milepost.ui.rebuilds import Rebuilds


@dataclass(frozen=True, slots=True)
class Part:
    """One section of a page. It is rendered again only if its context is no longer equal, so
    whatever changes with time (an age) must be in the context."""

    id: str
    template: str
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """`section`: which entry of the navigation is marked: its path, as `/queue`."""

    title: str
    parts: list[Part]
    section: str = "/"


@dataclass(frozen=True, slots=True)
class View:
    """What a page function is given. Two browsers with equal views share one rendering."""

    path: Mapping[str, str]  # the parameters in the path
    query: Mapping[str, str]
    board: Board
    history: History
    checkup: Checkup
    is_read_only: bool = False
    rebuilds: Rebuilds | None = None  # of pipelines, from their pages


PageFunction: TypeAlias = Callable[[View], Page]
PageRoutes: TypeAlias = "list[tuple[str, PageFunction]]"


class NotFound(Exception):
    """The page does not exist: what it would show is not there. The text is shown."""
