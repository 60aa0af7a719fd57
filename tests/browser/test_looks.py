"""Small screens, the dark, the keyboard, and those who do not see: on every page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

import pytest
from playwright.sync_api import BrowserContext, Page, ViewportSize, expect

from milepost import Job, Message, Milepost
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.errors import HandlerFailed
from milepost.processors.set_aside.skip import skip
from milepost.retry import Retry
from tests import operated
from tests.browser.conftest import Shown
from tests.waiting import wait_until

PATHS = (
    "/", "/log", "/log/0:1?payload=1", "/processors", "/processors/works", "/dead-letters",
    "/dead-letters/1?payload=1", "/pipelines", "/pipelines/revenue", "/queue", "/queue/emails",
    "/jobs", "/jobs/1", "/schedules", "/audit",
)  # fmt: skip
Scheme: TypeAlias = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
LONG = "a-name-that-is-much-longer-than-a-small-screen-is-wide.and-has-no-spaces.at-all"
# What a screen reader or a keyboard needs, found in the page itself. Returns sentences.
CHECK = """() => {
  const found = [];
  const name = e => e.outerHTML.slice(0, 120);
  const shown = e => e.checkVisibility({checkVisibilityCSS: true});
  for (const e of document.querySelectorAll('input:not([type=hidden]), select, textarea')) {
    if (!e.labels.length && !e.getAttribute('aria-label')) found.push('no label: ' + name(e));
  }
  for (const e of document.querySelectorAll('svg:not([aria-hidden])')) {
    const title = e.querySelector(':scope > title');
    const isNamed = e.getAttribute('role') === 'img' && title && title.textContent;
    if (!isNamed) found.push('no title: ' + name(e));
  }
  for (const e of document.querySelectorAll('a[href], button')) {
    if (!(e.textContent.trim() || e.getAttribute('aria-label'))) found.push('no name: ' + name(e));
  }
  let last = 0;
  for (const e of document.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
    const level = Number(e.tagName[1]);
    if (level > last + 1) found.push('heading skips a level: ' + name(e));
    last = level;
  }
  if (document.querySelectorAll('h1').length !== 1) found.push('not one h1');
  if (document.querySelectorAll('main').length !== 1) found.push('not one main');
  for (const e of document.querySelectorAll('nav')) {
    if (!e.getAttribute('aria-label')) found.push('no label: ' + name(e));
  }
  for (const e of document.querySelectorAll('table')) {
    const heads = [...e.querySelectorAll('thead th')];
    const wide = row => [...row.cells].reduce((n, cell) => n + cell.colSpan, 0);
    const columns = Math.max(...[...e.rows].map(wide));
    if (heads.length !== columns) found.push('columns without a head: ' + name(e));
    if (heads.some(h => !h.textContent.trim())) found.push('an empty head: ' + name(e));
  }
  for (const e of document.querySelectorAll('.scroll, pre')) {
    const scrolls = e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight;
    const reached = e.tabIndex >= 0 || e.querySelector('a[href], button, input, summary');
    if (scrolls && !reached) found.push('scrolls, and not by the keyboard: ' + name(e));
  }
  for (const e of document.querySelectorAll('button, input:not([type=hidden]), select')) {
    const box = e.getBoundingClientRect();
    if (shown(e) && (box.height < 24 || box.width < 12)) found.push('too small: ' + name(e));
  }
  if (!document.documentElement.lang || !document.title) found.push('no language or title');
  for (const id of [...document.querySelectorAll('[id]')].map(e => e.id)) {
    if (document.querySelectorAll('#' + CSS.escape(id)).length > 1) found.push('id twice: ' + id);
  }
  const rgb = c => c.match(/[\\d.]+/g).map(Number);
  const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => c.slice(0, 3).map(v => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const back = e => {
    for (let at = e; at; at = at.parentElement) {
      const c = rgb(getComputedStyle(at).backgroundColor);
      if (c.length < 4 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.textContent.trim() || e.closest('script, title') || !shown(e)) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(rgb(e.closest('svg') ? style.fill : style.color)), light(back(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push('contrast ' + ratio.toFixed(1) + ': ' + name(e));
  }
  return [...new Set(found)];
}"""
REACHABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary"


@pytest.fixture
def busy(mp: Milepost, conn: Connection) -> Milepost:
    """A log, a processor that works, one that has failed, and jobs."""

    @mp.processor(LONG, retry=Retry(limit=1))
    def fails(messages: Any, tx: Any) -> None:
        raise RuntimeError("it failed " * 20)

    @mp.processor("works", topics=["orders"], segments=2)
    def works(messages: Any, tx: Any) -> None: ...

    with conn.transaction():
        content = {"text": LONG * 3}
        mp.append(conn, Message("Placed", content, topic="orders", key=LONG, metadata=content))
        mp.put(conn, Job("emails", {"to": "anna"}), Job(LONG, {}))
    mp.run(only=["works"], until="caught_up")
    with pytest.raises(HandlerFailed):
        mp.run(only=[LONG], until="caught_up", fail_fast=True)
    skip(conn, mp.schema, CheckpointKey(LONG, 1))
    operated.pipeline(conn)
    operated.jobs(mp, conn)
    return mp


@pytest.fixture(scope="module")
def screen() -> ViewportSize:
    return {"width": 380, "height": 800}


def in_both_schemes(page: Page) -> Iterator[Scheme]:
    """As if the user changed it while the page is open. No page is made for one of them: the style
    asks for it."""
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        yield scheme


def test_every_page_is_accessible_and_fits_into_a_small_screen(
    busy: Milepost, shown: Shown
) -> None:
    found = {}
    for path in PATHS:
        page = shown.open(path)
        shown.follow()
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        for scheme in in_both_schemes(page):
            width = page.evaluate("document.documentElement.scrollWidth")
            wide = [f"{width} px wide"] if width > 380 else []
            found[path, scheme] = [*wide, *page.evaluate(CHECK)]
    assert {place: faults for place, faults in found.items() if faults} == {}


def test_the_dark_is_dark(shown: Shown) -> None:
    page = shown.open("/")
    for scheme in in_both_schemes(page):
        assert is_dark(page) is (scheme == "dark")
        page.reload()
        assert is_dark(page) is (scheme == "dark")


def is_dark(page: Page) -> bool:
    red = page.evaluate("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
    return int(red) < 60


def test_everything_is_reached_by_the_keyboard_and_shows_that_it_is(
    busy: Milepost, shown: Shown
) -> None:
    page = shown.open("/log")
    shown.follow()
    wanted = page.locator(REACHABLE).count()
    for _ in in_both_schemes(page):
        reached = set(focused(page, wanted + 20))
        assert len([each for each in reached if each[0] in ("A", "BUTTON", "INPUT")]) >= wanted
        assert all(outline != "none" for _, _, outline in reached)


def focused(page: Page, times: int) -> Iterator[tuple[str, str, str]]:
    """What Tab leads to: its tag, its place, and its outline."""
    for _ in range(times):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => { const e = document.activeElement, b = e.getBoundingClientRect();
               const place = [b.x, b.y + scrollY, e.textContent].join();
               return [e.tagName, place, getComputedStyle(e).outlineStyle] }"""
        )
        if found[0] != "BODY":
            yield tuple(found)


def test_read_only_shows_no_forms_that_change_something(
    busy: Milepost, serve: Callable[..., str], show: Callable[[str], Shown]
) -> None:
    shown = show(serve(read_only=True))
    for path in PATHS:
        page = shown.open(path)
        expect(page.locator("footer")).to_contain_text("read-only")
        assert page.locator("form[method=post]").count() == 0, path


def test_a_wrong_token_is_refused_and_the_right_one_lets_in(
    serve: Callable[..., str], context: BrowserContext
) -> None:
    token = "0123456789abcdef"  # noqa: S105
    shown = Shown(context.new_page(), serve(token=token))  # the browser complains about the 403
    page = shown.open("/log")
    page.get_by_label("Token").fill("something else")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("This is not the token.")
    page.wait_for_load_state()  # with its style
    for scheme in in_both_schemes(page):
        assert (scheme, page.evaluate(CHECK)) == (scheme, [])

    def enters() -> bool:
        """For a moment after a wrong token, no other one is looked at."""
        page.get_by_label("Token").fill(token)
        with page.expect_navigation():
            page.keyboard.press("Enter")
        return page.locator("h1").text_content() == "Log"

    wait_until(enters)
    assert page.evaluate("document.cookie") == ""
