"""The documentation's site asks nobody but whoever serves it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from playwright.sync_api import Browser, Page

from tests.browser.conftest import PATIENCE_SECONDS
from tests.unit.site.building import built

PAGE = "# Title\n\nAbout horizons.\n\n```mermaid\nflowchart TD\n  a --> b\n```\n"


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


def test_it_asks_no_other_host(browser: Browser, tmp_path: Path) -> None:
    site = built(tmp_path, index=PAGE)
    asked: list[str] = []
    with page_of(browser, asked) as page, served(site) as root:
        page.goto(f"{root}/index.html")
        page.keyboard.press("s")  # opens the search
        page.keyboard.type("horizon")
        page.locator(".md-search-result__item").first.wait_for()
        page.goto((site / "index.html").as_uri())
        page.wait_for_load_state("networkidle")
    assert len(asked) > 4
    assert [url for url in asked if not url.startswith((root, site.as_uri(), "blob:"))] == []


@contextmanager
def page_of(browser: Browser, asked: list[str]) -> Iterator[Page]:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_SECONDS * 1000)
    page.on("request", lambda request: asked.append(request.url))
    with closing(page):
        yield page


@contextmanager
def served(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(site))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
