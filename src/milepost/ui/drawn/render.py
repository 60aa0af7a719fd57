"""From pages to HTML: the templates, what all of them may use, and the version of each part."""

from __future__ import annotations

import hashlib
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from milepost import words
from milepost.ui.drawn import wording

if TYPE_CHECKING:
    from milepost.ui.drawn.page import Page, Part

# In place of a form's token, which is different for each browser, while a rendering is shared.
CSRF_PLACEHOLDER = f"csrf-{secrets.token_hex(16)}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page is: the prefix under which the dashboard is mounted, the path and the query."""

    root: str = ""
    here: str = "/"
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
class RenderedPart:
    id: str
    html: str
    version: str


def link(root: str, path: str, /, **query: Any) -> str:
    """The URL of a path of the dashboard, with the prefix, without query values that are None."""
    given = {name: value for name, value in query.items() if value is not None}
    return root + quote(path, safe="/:") + (f"?{urlencode(given)}" if given else "")


def number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"  # noqa: RUF001 - an en dash


def ago(seconds: float | None) -> str:
    return "–" if seconds is None else words.duration(seconds)  # noqa: RUF001


def rate(value: float) -> str:
    """A number a second: whole numbers if it is large."""
    return "0" if value == 0 else number(value, 0 if value >= 100 else 1)


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("milepost.ui", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters.update(number=number, duration=ago, rate=rate, size=words.size, shell=shlex.quote)
    made.filters.update(moment=wording.moment, pretty=wording.pretty)
    made.globals.update(count=words.count, stated=words.stated)
    return made


def render(template: str, place: Place, context: Mapping[str, Any]) -> str:
    """What templates may use besides their context: `link(path, **query)`, `here`, `is_read_only`,
    `csrf`."""
    common = {
        "link": partial(link, place.root),
        "here": place.here,
        "is_read_only": place.is_read_only,
        "csrf": CSRF_PLACEHOLDER,
    }
    return environment().get_template(template).render(common | dict(context))


def render_part(part: Part, place: Place) -> RenderedPart:
    html = render(part.template, place, part.context)
    return RenderedPart(part.id, html, hashlib.sha256(html.encode()).hexdigest()[:12])


@dataclass(slots=True)
class Rendering:
    """One view, rendered again and again: only the parts whose context changed."""

    place: Place
    _parts: dict[str, tuple[Part, RenderedPart]] = field(default_factory=dict, init=False)

    def update(self, page: Page) -> list[RenderedPart]:
        """All parts, as they are now."""
        self._parts = {part.id: (part, self._rendered(part)) for part in page.parts}
        return [rendered for _, rendered in self._parts.values()]

    def _rendered(self, part: Part) -> RenderedPart:
        known, rendered = self._parts.get(part.id, (None, None))
        if rendered is not None and known == part:
            return rendered
        return render_part(part, self.place)
