"""What an operator does more seldom, each with its effect in the database."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

import psycopg
import pytest
from playwright.sync_api import expect
from starlette.applications import Starlette
from starlette.routing import Mount

from milepost import Message, Milepost
from milepost.db import Connection
from milepost.processors.set_aside.dead_letters import list_dead_letters
from milepost.queue import admin, policies
from milepost.ui import Dashboard, dashboard
from tests import operated
from tests.browser.conftest import Shown
from tests.browser.test_operating import actions, confirm, press, row, said
from tests.serving import served
from tests.waiting import wait_until


@pytest.fixture
def url(busy_url: str) -> str:
    return busy_url


@pytest.fixture(autouse=True)
def _scheduled(mp: Milepost, conn: Connection) -> None:
    operated.schedules(mp, conn)


def test_who_stalls_the_log_is_found_on_the_overview_and_ended_there(
    shown: Shown, mp: Milepost, conn: Connection, url: str
) -> None:
    with psycopg.connect(url, application_name="import-script") as holding:
        holding.execute("set idle_in_transaction_session_timeout = 0")
        mp.append(holding, Message("First", {}))
        with conn.transaction():
            mp.append(conn, Message("Second", {}))
        page = shown.open("/log")
        holder = page.locator("#edges tr", has_text="import-script")
        expect(holder).to_contain_text("idle in transaction")
        press(holder, "End it")
        confirm(page, "Its open transaction is rolled back", "End the session")
        said(page, "was ended")
        with pytest.raises(psycopg.OperationalError):
            wait_until(lambda: bool(holding.execute("select 1").fetchone()) is None)
    expect(page.locator("#edges")).not_to_contain_text("import-script")
    assert actions(conn) == ["end-session"]


def test_a_segment_that_is_behind_is_split_and_the_processor_abandoned(
    shown: Shown, conn: Connection
) -> None:
    page = shown.open("/processors/cut")
    press(page, "Balance: split the one furthest behind")
    expect(page.locator("h2", has_text="3 segments")).to_be_visible()
    press(page, "Abandon")
    confirm(page, "Forget processor cut", "Abandon")
    said(page, "cut is abandoned")
    expect(page).to_have_url(shown.root + "/processors")
    assert conn.execute("select count(*) from milepost.segments").fetchone() == (0,)


def test_a_claimed_segment_is_released(shown: Shown, conn: Connection) -> None:
    conn.execute(
        "update milepost.segments set owner = 'host:1', claimed_until = now() + interval '1 hour',"
        " epoch = epoch + 1 where id = 0"
    )
    page = shown.open("/processors/cut")
    claimed = page.locator("#segments tr", has_text="host:1").last
    claimed.get_by_role("button", name="Release", exact=True).click(no_wait_after=True)
    # Its owner is gone: the claim expires after the operator has asked for it.
    wanted = "select wanted_by is not null from milepost.segments where id = 0"
    wait_until(lambda: conn.execute(wanted).fetchone() == (True,))
    conn.execute("update milepost.segments set claimed_until = now() where id = 0")
    said(page, "segment 0 is released")
    owner = "select owner from milepost.segments where id = 0"
    assert conn.execute(owner).fetchone() != ("host:1",)


def test_dead_letters_are_found_by_their_error_and_retried(shown: Shown, conn: Connection) -> None:
    page = shown.open("/dead-letters")
    page.get_by_label("Error or type").fill("held back")
    press(page, "Filter")
    expect(page.locator("tbody tr")).to_have_count(1)
    press(page, "Retry all that match")
    said(page, "retried by the running processor")
    assert actions(conn) == ["retry-dead-letters"]
    assert any(letter.retry_requested_at for letter in list_dead_letters(conn, "milepost"))


def test_a_pipeline_and_a_schedule_are_resumed(shown: Shown, conn: Connection) -> None:
    page = shown.open("/pipelines/revenue")
    press(page, "Pause")
    press(page, "Resume")
    said(page, "revenue is resumed")
    page = shown.open("/schedules")
    press(row(page, "weekly"), "Pause")
    press(row(page, "weekly"), "Resume")
    said(page, "weekly is resumed")
    paused = "select count(*) from milepost.schedules where is_paused"
    assert conn.execute(paused).fetchone() == (0,)


def test_a_rebuild_is_started_and_its_end_is_shown(
    mp: Milepost,
    conn: Connection,
    serve: Callable[[Dashboard], str],
    show: Callable[[str], Shown],
) -> None:
    """With an application that hangs. What one with Spark fills is in tests/pipeline/rebuild."""
    shown = show(serve(mp.dashboard(app="tests.integration.ui.application_that_hangs:mp")))
    page = shown.open("/pipelines/revenue")
    press(page, "Continue")
    confirm(page, "Fill a new version of revenue", "Rebuild")
    said(page, "The rebuild of revenue has begun")
    outcome = page.locator("#rebuild .notice")
    expect(outcome).to_contain_text("of this dashboard's machine is at it")
    shown.follow()
    os.kill(int(re.findall(r"\d+", outcome.inner_text())[0]), signal.SIGKILL)
    expect(outcome).to_contain_text("exit code -9")
    assert actions(conn) == ["rebuild-pipeline"]


def test_a_channel_is_resumed(shown: Shown, conn: Connection) -> None:
    page = shown.open("/queue")
    for label, is_paused in (("Pause", True), ("Resume", False)):
        press(row(page, "limited"), label)
        said(page, f"limited is {label.lower()}d")
        assert policies(conn)["limited"].paused is is_paused


def test_limits_are_removed_and_a_job_is_cancelled(shown: Shown, conn: Connection) -> None:
    page = shown.open("/queue/limited?status=ready")
    press(page, "Remove limits")
    confirm(page, "Remove the policy of limited?", "Remove limits")
    said(page, "its policy was removed")
    assert "limited" not in policies(conn)
    (first, *rest) = admin.find_ids(conn, "milepost", channel="limited", status="ready")
    press(row(page, str(first)), "Cancel")
    confirm(page, f"Cancel job {first}?", "Cancel")
    said(page, "1 job cancelled")
    assert admin.find_ids(conn, "milepost", channel="limited", status="ready") == rest


def test_all_dead_jobs_are_retried_by_filter(shown: Shown, conn: Connection) -> None:
    page = shown.open("/jobs")
    page.get_by_label("Search").fill("no answer")
    press(page, "Filter")
    expect(page.locator("tbody tr")).to_have_count(2)
    press(page, "Retry all dead that match")
    said(page, "2 jobs ready again")
    assert admin.find_ids(conn, "milepost", status="dead") == []


def test_a_message_shows_its_payload_and_who_has_passed_it(shown: Shown) -> None:
    page = shown.open("/log")
    page.get_by_role("link", name="0:1", exact=True).click()
    expect(page.locator("#message")).not_to_contain_text(str(operated.BIG))
    page.get_by_role("link", name="Show the payload").click()
    expect(page.locator("#message")).to_contain_text(str(operated.BIG))
    passed = page.locator("#passed tr", has_text="parking")
    expect(passed).to_contain_text("passed")


def test_a_chart_has_an_hour_and_a_day(shown: Shown) -> None:
    page = shown.open("/queue/limited")
    page.get_by_role("link", name="1 day").first.click()
    expect(page).to_have_url(shown.root + "/queue/limited?span=1d")
    title = page.locator("#channel svg title").first
    expect(title).to_contain_text("Ready and running jobs, the last 1 day")


def test_below_a_prefix_pages_events_and_actions_work(
    mp: Milepost, conn: Connection, show: Callable[[str], Shown]
) -> None:
    made = dashboard(mp)
    with served(made, Starlette(routes=[Mount("/ops/milepost", made)])) as root:
        shown = show(root + "/ops/milepost")
        page = shown.open("/processors/cut")
        shown.follow()
        press(page, "Pause")
        said(page, "cut is paused")
        expect(page).to_have_url(shown.root + "/processors/cut")
        shown.page.close()
    assert actions(conn) == ["pause-processor"]
