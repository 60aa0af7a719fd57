"""Which page a path names, and where a request is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.routing import compile_path

if TYPE_CHECKING:
    from re import Pattern

    from starlette.requests import Request

    from milepost.ui.drawn.page import PageFunction


@dataclass(frozen=True, slots=True)
class PageRoute:
    path: str
    function: PageFunction
    pattern: Pattern[str] = field(repr=False)

    @classmethod
    def of(cls, path: str, function: PageFunction) -> PageRoute:
        return cls(path, function, compile_path(path)[0])

    def match(self, path: str) -> dict[str, str] | None:
        found = self.pattern.match(path)
        return None if found is None else found.groupdict()


def here_of(request: Request) -> str:
    """The path below the prefix, quoted, and the query: what a link to this view has."""
    root = request.scope.get("root_path", "")
    path = request.scope["path"].removeprefix(root) or "/"
    query = request.url.query
    return quote(path, safe="/:") + (f"?{query}" if query else "")


def above(here: str) -> str:
    """The list in which the subject of a page is: `/jobs` of `/jobs/17?payload=1`."""
    return "/" + here.split("/")[1].partition("?")[0]
