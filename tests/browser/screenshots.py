"""The pictures of docs/dashboard.md: `python -m tests.browser.screenshots [directory]`.

Needs Chromium, and Pillow, which makes them small."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from milepost import Milepost
from milepost.ui import dashboard
from tests.browser.conftest import ARGUMENTS
from tests.browser.scene import forgotten, shop
from tests.server import postgres
from tests.serving import served

PAGES = {
    "overview": "/",
    "log": "/log?topic=payments",
    "processor": "/processors/shipping",
    "dead-letters": "/dead-letters?processor=search-index",
    "pipeline": "/pipelines/revenue",
    "queue": "/queue",
}
DARK, SMALL = "overview-dark", "overview-small"
WIDTH, HEIGHT, SMALL_WIDTH = 1000, 760, 380
WATCHED_SECONDS = 60  # so that the charts have something to show
COLOURS = 128


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with _dashboard() as root, _browser() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(root)
        page.wait_for_timeout(WATCHED_SECONDS * 1000)
        for name, path in PAGES.items():
            _take(page, root + path, directory / f"{name}.png")
        page.emulate_media(color_scheme="dark")
        _take(page, root, directory / f"{DARK}.png")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": SMALL_WIDTH, "height": HEIGHT})
        _take(page, root, directory / f"{SMALL}.png")


def _take(page: Page, url: str, file: Path) -> None:
    page.goto(url)
    page.get_by_text("Live", exact=True).wait_for()
    page.wait_for_timeout(2000)
    page.screenshot(path=file)
    with Image.open(file) as taken:
        reduced = taken.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    reduced.save(file, optimize=True)
    print(f"{file}: {file.stat().st_size / 1000:.0f} kB")  # noqa: T201 - a script


@contextmanager
def _dashboard() -> Iterator[str]:
    with postgres() as server:
        url = server.start()
        mp = Milepost(url)
        mp.migrate()
        with shop(url), forgotten(url), served(dashboard(mp)) as root:
            yield root


@contextmanager
def _browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        yield found
        found.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
