"""The page follows what happens, and leaves alone what the user is doing."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import pytest
from playwright.sync_api import BrowserContext, expect

from milepost import Message, Milepost
from milepost.db import Connection
from milepost.ui import dashboard
from milepost.ui.broadcast import TICK_SECONDS
from milepost.ui.drawn.render import RenderedPart
from milepost.ui.observed import checkup
from tests.browser.conftest import Shown
from tests.waiting import wait_until

PATHS = ("/", "/log", "/processors", "/pipelines", "/queue")
# Of the looks that begin after a change, so many may still be answered by a read from before it.
# Counted, because a busy machine says nothing about seconds.
LATE_LOOKS = 2
PROMPT_SECONDS = 1.5


def append(mp: Milepost, conn: Connection, key: str) -> str:
    with conn.transaction():
        return str(mp.append(conn, Message("Placed", {}, topic="orders", key=key))[0])


def test_every_page_opens_without_complaints(shown: Shown) -> None:
    for path in PATHS:
        page = shown.open(path)
        shown.follow()
        assert page.locator("h1").inner_text()


def test_a_change_is_shown_within_a_second_or_so(
    mp: Milepost, conn: Connection, serve: Callable[..., str], show: Callable[[str], Shown]
) -> None:
    made = dashboard(mp)
    shown = show(serve(made))
    page = shown.open("/log")
    shown.follow()
    wait_until(lambda: made.broadcast.is_watched)
    (channel,) = made.broadcast._channels.values()
    render, is_appended, looks = channel.render, Event(), list[bool]()

    def look() -> list[RenderedPart]:
        is_later = is_appended.is_set()
        parts = render()
        if is_later:
            looks.append(any("anna" in part.html for part in parts))
        return parts

    channel.render = look
    append(mp, conn, "anna")
    is_appended.set()
    expect(page.get_by_role("link", name="anna", exact=True)).to_be_visible()
    assert looks.count(False) <= LATE_LOOKS
    assert (LATE_LOOKS + 1) * TICK_SECONDS <= PROMPT_SECONDS


def test_typed_text_and_focus_stay(shown: Shown, mp: Milepost, conn: Connection) -> None:
    page = shown.open("/log")
    shown.follow()
    page.get_by_label("Key").click()
    page.keyboard.type("half a wo")
    append(mp, conn, "anna")
    expect(page.get_by_role("link", name="anna", exact=True)).to_be_visible()
    page.keyboard.type("rd")
    expect(page.get_by_label("Key")).to_have_value("half a word")
    expect(page.get_by_label("Key")).to_be_focused()


def test_a_focused_link_in_a_part_that_changes_keeps_the_focus(
    shown: Shown, mp: Milepost, conn: Connection
) -> None:
    append(mp, conn, "anna")
    page = shown.open("/log")
    shown.follow()
    page.get_by_role("link", name="anna", exact=True).focus()
    append(mp, conn, "ben")
    expect(page.get_by_role("link", name="ben", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="anna", exact=True)).to_be_focused()


def test_what_is_typed_in_a_part_that_changes_stays_until_it_is_taken_back(
    shown: Shown, mp: Milepost, conn: Connection
) -> None:
    """By a field that the test puts into the part: the part waits, and is shown afterwards."""
    page = shown.open("/log")
    shown.follow()
    page.evaluate(
        """document.querySelector('#tail').insertAdjacentHTML('afterbegin', '<input id="mine">')"""
    )
    page.locator("#mine").click()
    page.keyboard.type("mine")
    append(mp, conn, "anna")
    expect(page.locator("#edges text", has_text="1 message")).to_be_visible()  # another part
    expect(page.locator("#mine")).to_have_value("mine")
    page.locator("#mine").fill("")
    page.get_by_label("Topic").focus()
    expect(page.get_by_role("link", name="anna", exact=True)).to_be_visible()


def test_a_click_during_which_the_part_changes_is_not_lost(
    shown: Shown, mp: Milepost, conn: Connection
) -> None:
    append(mp, conn, "anna")
    page = shown.open("/log")
    shown.follow()
    page.get_by_role("link", name="anna", exact=True).hover()
    page.mouse.down()
    append(mp, conn, "ben")
    expect(page.locator("#edges text", has_text="2 messages")).to_be_visible()  # another part
    page.mouse.up()
    expect(page).to_have_url(f"{shown.root}/log?key=anna")


def test_selected_text_stays_until_it_is_not_selected_any_more(
    shown: Shown, mp: Milepost, conn: Connection
) -> None:
    append(mp, conn, "anna")
    page = shown.open("/log")
    shown.follow()
    selected = "document.getSelection().toString()"
    page.evaluate("document.getSelection().selectAllChildren(document.querySelector('#tail td'))")
    text = page.evaluate(selected)
    append(mp, conn, "ben")
    expect(page.locator("#edges text", has_text="2 messages")).to_be_visible()  # another part
    assert text
    assert page.evaluate(selected) == text
    page.evaluate("document.getSelection().removeAllRanges()")
    expect(page.get_by_role("link", name="ben", exact=True)).to_be_visible()


def test_scroll_and_open_details_stay(
    shown: Shown, mp: Milepost, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "EVERY_SECONDS", 0.5)
    page = shown.open("/")
    page.set_viewport_size({"width": 800, "height": 300})
    shown.follow()
    page.get_by_text("All checks").click()
    page.evaluate("window.scrollTo(0, 120)")
    before = page.locator("#health").get_attribute("data-live")
    append(mp, conn, "anna")  # the check of the log counts it
    health = page.locator("#health")
    wait_until(lambda: health.get_attribute("data-live") != before, look_seconds=0.1)
    assert page.locator("#health details").evaluate("d => d.open")
    assert page.evaluate("window.scrollY") == 120


def test_a_hidden_tab_asks_for_nothing(
    mp: Milepost, serve: Callable[..., str], show: Callable[[str], Shown]
) -> None:
    made = dashboard(mp)
    shown = show(serve(made))
    page = shown.open("/log")
    shown.follow()
    wait_until(lambda: made.broadcast.is_watched)  # the answer begins before its stream does
    hide = "v => { Object.defineProperty(document, 'hidden', {value: v, configurable: true});"
    hide += "document.dispatchEvent(new Event('visibilitychange')) }"
    page.evaluate(hide, True)
    wait_until(lambda: not made.broadcast.is_watched)
    page.evaluate(hide, False)
    wait_until(lambda: made.broadcast.is_watched)


def test_many_browsers_of_one_view_are_one_reader(
    mp: Milepost, serve: Callable[..., str], show: Callable[[str], Shown]
) -> None:
    made = dashboard(mp)
    root = serve(made)
    for _ in range(3):
        shown = show(root)
        shown.open("/log")
        shown.follow()
    channels = made.broadcast._channels
    wait_until(lambda: [len(channel.listeners) for channel in [*channels.values()]] == [3])


def test_a_lost_database_and_its_return_are_said(
    mp: Milepost, serve: Callable[..., str], show: Callable[[str], Shown]
) -> None:
    made = dashboard(mp)
    shown = show(serve(made))
    page = shown.open("/log")
    shown.follow()
    good, made.board.open = made.board.open, Milepost("postgresql://x@127.0.0.1:1/x").connect
    made.board.close()
    expect(page.locator("#live")).to_contain_text("connection", ignore_case=True)
    made.board.open = good
    expect(page.locator("#live")).to_have_text("Live")


def test_a_server_that_is_gone_is_said(
    mp: Milepost, context: BrowserContext, serve: Callable[..., str]
) -> None:
    shown = Shown(context.new_page(), serve())  # the browser complains about the lost stream
    page = shown.open("/")
    shown.follow()
    context.set_offline(True)
    page.evaluate("stream.close(); stream = null; open()")
    expect(page.locator("#live")).to_contain_text("Connection lost")
    context.set_offline(False)
    expect(page.locator("#live")).to_have_text("Live")
