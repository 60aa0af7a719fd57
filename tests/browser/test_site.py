"""The documentation's site asks nobody but whoever serves it."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser

from tests.unit.site.building import built

PAGE = "# Title\n\n```mermaid\nflowchart TD\n  a --> b\n```\n\n```python\nx = 1\n```\n"


def test_it_asks_no_other_host(browser: Browser, tmp_path: Path) -> None:
    site = built(tmp_path, index=PAGE)
    asked: list[str] = []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("s")  # opens the search
    page.keyboard.type("title")
    page.wait_for_load_state("networkidle")
    page.close()
    assert len(asked) > 2
    assert [url for url in asked if not url.startswith(site.as_uri())] == []
