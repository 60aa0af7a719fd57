"""An operator at the browser: each page, each kind of action with its effect in the database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from milepost import Job, Milepost
from milepost.db import Connection, one
from milepost.processors.set_aside.dead_letters import list_dead_letters
from milepost.queue import Policy, Rate, admin, policies
from milepost.ui.audit import list_audit
from milepost.ui.pages import schedules
from tests import operated
from tests.browser.conftest import PATIENCE_SECONDS, Shown


@pytest.fixture
def url(busy_url: str) -> str:
    return busy_url


@pytest.fixture(autouse=True)
def _scheduled(mp: Milepost, conn: Connection) -> None:
    operated.schedules(mp, conn)


def row(page: Page, text: str) -> Locator:
    return page.locator("tr", has=page.get_by_text(text, exact=True))


def press(place: Page | Locator, label: str) -> None:
    place.get_by_role("button", name=label, exact=True).first.click()


def said(page: Page, text: str) -> None:
    expect(page.locator(".notice.good")).to_contain_text(text)


def confirm(page: Page, question: str, label: str) -> None:
    expect(page.locator("main")).to_contain_text(question)
    press(page, label)


def actions(conn: Connection) -> list[str]:
    """What was recorded, the oldest first."""
    return [entry.action for entry in reversed(list_audit(conn, "milepost", 100))]


def test_a_processor_is_paused_and_resumed(shown: Shown, conn: Connection) -> None:
    paused = "select is_paused from milepost.processors where name = 'cut'"
    page = shown.open("/processors")
    page.get_by_role("link", name="cut", exact=True).click()
    press(page, "Pause")
    said(page, "cut is paused")
    assert conn.execute(paused).fetchone() == (True,)

    press(page, "Resume")
    said(page, "cut is resumed")
    assert conn.execute(paused).fetchone() == (False,)
    assert actions(conn) == ["pause-processor", "resume-processor"]


def test_segments_are_split_and_merged(shown: Shown, conn: Connection) -> None:
    page = shown.open("/processors/cut")
    press(page, "Split the widest")
    expect(page.locator("h2", has_text="3 segments")).to_be_visible()
    assert conn.execute("select count(*) from milepost.segments").fetchone() == (3,)

    press(page, "Merge the narrowest")
    expect(page.locator("h2", has_text="2 segments")).to_be_visible()
    assert conn.execute("select count(*) from milepost.segments").fetchone() == (2,)


def test_a_message_is_skipped_after_a_question(shown: Shown, conn: Connection) -> None:
    page = shown.open("/processors/stuck")
    press(page, "Skip")
    confirm(page, "Skip the next message", "Skip message")
    said(page, "it is a dead letter now")
    expect(page.locator("#dead-letters")).to_contain_text("skipped by an operator")
    assert len(list_dead_letters(conn, "milepost", "stuck")) == 1


def test_a_reset_is_asked_for_and_can_be_cancelled(shown: Shown, conn: Connection) -> None:
    at = "select position from milepost.checkpoints where processor = 'stuck'"
    before = conn.execute(at).fetchone()
    page = shown.open("/processors/stuck")
    page.get_by_label("Where it continues").fill("end")
    press(page, "Reset")
    page.get_by_role("link", name="Cancel").click()
    expect(page).to_have_url(shown.root + "/processors/stuck")
    assert (conn.execute(at).fetchone(), actions(conn)) == (before, [])

    page.get_by_label("Where it continues").fill("end")
    press(page, "Reset")
    confirm(page, "Move the checkpoint of stuck to end?", "Reset")
    said(page, "stuck continues after")
    assert conn.execute(at).fetchone() != before


def test_what_is_refused_says_why(shown: Shown, conn: Connection) -> None:
    page = shown.open("/processors/stuck")
    page.get_by_label("Where it continues").fill("soon")
    press(page, "Reset")
    press(page, "Reset")
    expect(page.locator(".notice.bad")).to_contain_text("'soon' is neither beginning, end")
    assert actions(conn) == []


def test_the_payload_of_a_dead_letter_is_shown_on_request(shown: Shown, conn: Connection) -> None:
    letter, *_ = list_dead_letters(conn, "milepost")
    page = shown.open("/dead-letters")
    page.get_by_role("link", name=str(letter.id), exact=True).click()
    expect(page.locator("main")).not_to_contain_text(str(operated.BIG))
    page.get_by_role("link", name="Show data and metadata").click()
    expect(page.locator("main")).to_contain_text(str(operated.BIG))


def test_dead_letters_are_retried_and_dropped_singly_and_by_filter(
    shown: Shown, conn: Connection
) -> None:
    first, second = list_dead_letters(conn, "milepost")
    page = shown.open("/processors/parking")
    press(page, "Retry the key")
    said(page, "2 dead letters are retried")
    assert conn.execute(
        "select count(*) from milepost.parked_keys where retry_requested_at is not null"
    ).fetchone() == (1,)

    press(row(page, str(first.id)), "Drop")
    confirm(page, f"Drop dead letter {first.id} for good?", "Drop")
    said(page, "1 dead letter dropped")
    assert [letter.id for letter in list_dead_letters(conn, "milepost")] == [second.id]

    page.get_by_label("Key").fill("bad")
    press(page, "Filter")
    press(page, "Drop all that match")
    confirm(page, "processor: parking, key: bad", "Drop all that match")
    said(page, "1 dead letter dropped")
    assert list_dead_letters(conn, "milepost") == []


def test_a_pipeline_is_paused_rolled_back_and_a_version_dropped(
    shown: Shown, conn: Connection
) -> None:
    page = shown.open("/pipelines")
    page.get_by_role("link", name="revenue", exact=True).click()
    expect(page.get_by_role("link", name="Spark's own page")).to_be_visible()
    press(page, "Pause")
    said(page, "revenue is paused")

    press(page, "Roll back")
    confirm(page, "show its previous version?", "Roll back")
    said(page, "revenue shows version 1 again")
    active = "select version from milepost.pipelines where is_active"
    assert conn.execute(active).fetchone() == (1,)

    press(page, "Show this version")
    confirm(page, "show version 2?", "Show this version")
    said(page, "revenue shows version 2")

    press(page.locator("#versions tbody tr").nth(0), "Drop")
    confirm(page, "Drop version 1 of revenue", "Drop")
    said(page, "revenue version 1 is dropped")
    assert conn.execute("select to_regclass('reports.revenue__v1')").fetchone() == (None,)


def test_a_channel_is_paused_and_its_limits_are_edited_in_place(
    shown: Shown, conn: Connection
) -> None:
    page = shown.open("/queue")
    press(row(page, "limited"), "Pause")
    said(page, "limited is paused")
    assert policies(conn)["limited"].paused

    page.get_by_role("link", name="limited", exact=True).click()
    page.get_by_label("Run at most").fill("8")
    page.get_by_label("Start at most").fill("100")
    page.get_by_label("in seconds").fill("0.5")
    press(page, "Save")
    said(page, "The limits of limited are set")
    expect(page.get_by_label("Run at most")).to_have_value("8")
    expect(page.get_by_label("in seconds")).to_have_value("0.5")
    assert policies(conn)["limited"] == Policy(8, paused=True, rate=Rate(100, 0.5))


def test_jobs_are_searched_retried_dropped_and_cancelled(shown: Shown, conn: Connection) -> None:
    first, second = admin.find_ids(conn, "milepost", status="dead")
    page = shown.open("/jobs")
    page.get_by_label("Status").select_option("dead")
    press(page, "Filter")
    expect(page.locator("tbody tr")).to_have_count(2)

    press(row(page, str(first)), "Retry")
    said(page, "1 job ready again")
    press(row(page, str(second)), "Drop")
    confirm(page, f"Delete the dead job {second} for good?", "Drop")
    said(page, "1 dead job dropped")
    expect(page).to_have_url(shown.root + "/jobs?channel=&status=dead&search=")
    assert admin.find_ids(conn, "milepost", status="dead") == []

    page.get_by_label("Status").select_option("all")
    page.get_by_label("Channel").fill("emails")
    press(page, "Filter")
    press(page, "Cancel all that match")
    confirm(page, "channel: emails", "Cancel all that match")
    said(page, "2 jobs cancelled")
    assert admin.find_ids(conn, "milepost", channel="emails") == []
    assert len(admin.find_ids(conn, "milepost", channel="limited")) == 5


def test_a_job_shows_its_content_on_request(shown: Shown, conn: Connection) -> None:
    (id_, *_) = admin.find_ids(conn, "milepost", status="dead")
    page = shown.open(f"/jobs/{id_}")
    expect(page.locator("main")).to_contain_text("TimeoutError: no answer")
    page.get_by_role("link", name="Show content").click()
    expect(page.locator("pre").last).to_contain_text(str(operated.BIG))


def test_a_schedule_is_run_paused_and_removed(
    shown: Shown, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    nightly = "select next_at from milepost.schedules where name = 'nightly'"
    (tick,) = one(conn.execute(nightly).fetchone())
    # At whatever time of the day it runs, also when the day ends meanwhile.
    now = SimpleNamespace(now=lambda _zone: tick - timedelta(days=1))
    monkeypatch.setattr(schedules, "datetime", now)
    page = shown.open("/schedules")
    expect(row(page, "nightly")).to_contain_text("tomorrow at")
    press(row(page, "nightly"), "Run now")
    said(page, "was put")
    assert len(admin.find_ids(conn, "milepost", channel="reports")) == 1

    press(row(page, "nightly"), "Pause")
    said(page, "nightly is paused")
    press(row(page, "nightly"), "Remove")
    confirm(page, "Remove the schedule nightly?", "Remove")
    said(page, "nightly is removed")
    names = conn.execute("select name from milepost.schedules").fetchall()
    assert names == [("weekly",)]


def test_the_audit_names_what_was_done(shown: Shown) -> None:
    page = shown.open("/processors/cut")
    press(page, "Pause")
    said(page, "cut is paused")
    page.get_by_role("link", name="Audit").click()
    expect(page.locator("tbody tr").first).to_contain_text("local")
    expect(page.locator("tbody tr").first).to_contain_text("pause-processor")


def test_a_job_that_is_put_appears_without_a_reload(
    shown: Shown, mp: Milepost, conn: Connection
) -> None:
    page = shown.open("/queue/limited")
    shown.follow()
    page.get_by_label("Run at most").fill("77")
    (id_,) = mp.put(conn, Job("limited", {}))
    expect(page.get_by_role("link", name=str(id_), exact=True)).to_be_visible()
    expect(page.get_by_label("Run at most")).to_have_value("77")


def test_everything_works_without_scripts(
    browser: Browser, serve: Callable[..., str], conn: Connection
) -> None:
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    page = context.new_page()
    page.goto(serve() + "/queue/limited?status=dead")
    press(page, "Drop all dead that match")
    confirm(page, "Delete all dead jobs", "Drop all that match")
    said(page, "2 dead jobs dropped")
    expect(page.locator("#jobs")).to_contain_text("No jobs match")
    context.close()
    assert admin.find_ids(conn, "milepost", status="dead") == []
