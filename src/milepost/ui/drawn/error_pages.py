"""What is shown instead of a page that does not exist, may not be read, or cannot be read now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse

from milepost.errors import NotPermitted
from milepost.ui import pages
from milepost.ui.drawn.page import NotFound
from milepost.ui.drawn.render import Place, render

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


def not_found(request: Request, error: Exception) -> Response:
    text = str(error) if isinstance(error, NotFound) else f"There is no page {request.url.path!r}."
    return _error_page(request, "Not found", text, 404)


def refused(request: Request, error: Exception) -> Response:
    status_code = 403 if isinstance(error, NotPermitted) else 500
    return _error_page(request, "This cannot be shown", str(error), status_code)


def unreachable(request: Request, error: Exception) -> Response:
    """libpq's text names the host and the user, never the password."""
    return _error_page(request, "The database does not answer", str(error), 503)


def reported(request: Request, error: Exception) -> Response:
    """It answers, and says what is wrong."""
    return _error_page(request, "The database refuses this", str(error), 500)


def _error_page(request: Request, title: str, text: str, status_code: int) -> Response:
    place = Place(request.scope.get("root_path", ""))
    context = {"title": title, "text": text, "sections": pages.SECTIONS}
    return HTMLResponse(render("error.html", place, context), status_code)
