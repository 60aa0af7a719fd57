"""One Chromium with one window for each file of tests, and for each test a page that reports what
its console says."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from milepost import Milepost
from milepost.log import diagnose
from milepost.sql import LogOrder
from milepost.ui import Dashboard, dashboard
from milepost.ui.actions import processors
from milepost.ui.observed import board, pace
from tests.operated import busy_template, busy_url  # noqa: F401 - fixtures
from tests.serving import served

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# What is waited for comes: how soon depends on the machine, and Playwright's own 5 s may be over
# before a busy one has run each of the processes that take part.
PATIENCE_SECONDS = 60.0
expect.set_options(timeout=PATIENCE_SECONDS * 1000)


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test opens in a second what an operator opens in a minute; test_load has the real pace."""
    monkeypatch.setattr(pace, "QUERIES_A_SECOND", 1000)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read, a lock and an operation that a busy machine keeps waiting are not given up: the page
    would be another one, and the browser would complain about its status."""
    monkeypatch.setattr(board, "LOOK_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(diagnose, "LOCK_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(processors, "TIMEOUT_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def order() -> LogOrder:
    """The dashboard shows both orders alike."""
    return "append"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for the whole run: while it is open, an event loop runs in this thread, and tests that
    follow could not run theirs."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no Chromium (Debian: apt install chromium): the dashboard was not opened")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield found
        found.close()


@dataclass
class Shown:
    """A page of the dashboard in the browser."""

    page: Page
    root: str  # the URL of the overview, without the last slash
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str = "/") -> Page:
        self.page.goto(self.root + path)
        return self.page

    def follow(self) -> None:
        """Wait until it is told of changes."""
        expect(self.page.locator("#live")).to_have_text("Live")


@pytest.fixture
def serve(mp: Milepost) -> Iterator[Callable[..., str]]:
    """Serve the log's dashboard with some options; its URL."""
    with ExitStack() as stack:

        def start(made: Dashboard | None = None, **options: object) -> str:
            made = made or dashboard(mp, **options)  # type: ignore[arg-type]  # as given
            return stack.enter_context(served(made))

        yield start


@pytest.fixture(scope="module")
def screen() -> ViewportSize:
    return {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def window(browser: Browser, screen: ViewportSize) -> Iterator[BrowserContext]:
    """For the tests of a file: with one for each, Chromium would start processes each time."""
    made = browser.new_context(viewport=screen)
    made.set_default_timeout(PATIENCE_SECONDS * 1000)
    yield made
    made.close()


@pytest.fixture
def context(window: BrowserContext) -> Iterator[BrowserContext]:
    """Nothing of the test before is left in it: every dashboard has a port of its own, so only
    cookies could be shared."""
    yield window
    for page in window.pages:
        page.close()
    window.set_offline(False)
    window.clear_cookies()


@pytest.fixture
def show(context: BrowserContext) -> Iterator[Callable[[str], Shown]]:
    """Open a page of a dashboard. At the end, its console must have been silent."""
    opened: list[Shown] = []

    def new(root: str) -> Shown:
        shown = Shown(context.new_page(), root)
        shown.page.on("console", lambda m: _note(shown, m.type, m.text))
        shown.page.on("pageerror", lambda error: shown.complaints.append(str(error)))
        opened.append(shown)
        return shown

    yield new
    assert [shown.complaints for shown in opened if shown.complaints] == []


@pytest.fixture
def shown(show: Callable[[str], Shown], serve: Callable[..., str]) -> Shown:
    """The dashboard with all actions, not opened yet: `shown.open("/queue")`."""
    return show(serve())


def _note(shown: Shown, kind: str, text: str) -> None:
    if kind in ("error", "warning"):
        shown.complaints.append(f"{kind}: {text}")
