"""What the pages of processors, pipelines, the queue, schedules and the audit show."""

from __future__ import annotations

import html
import re
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace

import pytest

from milepost import Job, Milepost
from milepost.db import Connection, one
from milepost.processors.set_aside.dead_letters import list_dead_letters
from milepost.queue import admin
from milepost.ui import dashboard
from milepost.ui.observed.sampler import Sampler
from milepost.ui.pages import schedules
from tests import operated
from tests.integration.ui.operating import Operator
from tests.waiting import wait_until

PATHS = (
    "/processors", "/processors/cut", "/pipelines/revenue", "/queue", "/queue/limited",
    "/jobs", "/schedules", "/dead-letters",
)  # fmt: skip
NIGHTLY = "select next_at from milepost.schedules where name = 'nightly'"
_TAG = re.compile(r"<(script|style|title).*?</\1>|<[^>]+>", re.DOTALL)


@pytest.fixture
def url(busy_url: str) -> str:
    return busy_url


@pytest.fixture(autouse=True)
def _scheduled(mp: Milepost, conn: Connection) -> None:
    operated.schedules(mp, conn)


def words(page: str) -> str:
    """What a reader sees of it."""
    return " ".join(html.unescape(_TAG.sub(" ", page)).split())


def actions(page: str) -> set[str]:
    return set(re.findall(r'action="[^"]*/actions/([a-z-]+)"', page))


def test_processors_are_listed_with_state_lag_and_error(operator: Operator) -> None:
    shown = words(operator.get("/processors"))
    assert "stuck failed 3" in shown
    assert "HandlerFailed: Processor 'stuck'" in shown
    assert "cut" in shown
    assert "parking" in shown


def test_a_processor_offers_what_operators_do_with_it(operator: Operator) -> None:
    assert actions(operator.get("/processors/cut")) >= {
        "pause-processor", "skip-message", "reset-processor", "abandon-processor",
        "split-segment", "merge-segment", "balance-segments",
    }  # fmt: skip


def test_segments_are_shown_with_their_owner_until_when_and_their_lag(
    operator: Operator, conn: Connection
) -> None:
    conn.execute(
        "update milepost.segments set owner = 'web-1:411', claimed_until = '2100-01-01 00:00Z'"
        " where id = milepost.key_hash('good') & 1"
    )
    page = operator.get("/processors/cut")
    assert "1/2 web-1:411 2100-01-01 00:00:00 UTC 1" in words(page)
    assert "not claimed" in words(page)
    assert "1 messages behind" in page  # the title of its bar
    assert "release-segment" in actions(page)


def test_a_paused_processor_offers_to_resume(operator: Operator) -> None:
    operator.act("pause-processor", name="cut")
    page = operator.get("/processors/cut")
    assert "resume-processor" in actions(page)
    assert "pause-processor" not in actions(page)


def test_an_unknown_processor_pipeline_job_or_letter_is_not_found(operator: Operator) -> None:
    for path in ("/processors/typo", "/processors/cut?version=7", "/pipelines/typo", "/jobs/999",
                 "/jobs/x", "/dead-letters/999", f"/jobs/{2**63}", "/queue/%00"):  # fmt: skip
        assert operator.client.get(path).status_code == 404, path


def test_a_processor_of_any_name_has_its_page(
    operator: Operator, mp: Milepost, conn: Connection
) -> None:
    name = 'a/b?c=<i>&"ü'
    conn.execute(
        "insert into milepost.processors (name, version, state) values (%s, 1, 'stopped')", (name,)
    )
    listed = operator.get("/processors")
    assert "<i>" not in listed
    (link,) = {html.unescape(found) for found in re.findall(r'href="(/processors/a[^"]*)"', listed)}
    assert name in words(operator.get(link))


def test_dead_letters_are_shown_with_their_error_and_without_their_payload(
    operator: Operator,
) -> None:
    shown = words(operator.get("/processors/parking"))
    assert "ValueError: a bad one" in shown
    assert "parked" in shown
    assert str(operated.BIG) not in shown


def test_the_payload_of_a_dead_letter_is_shown_on_request_with_all_digits(
    operator: Operator, conn: Connection
) -> None:
    letter, *_ = list_dead_letters(conn, "milepost", "parking")
    hidden, shown = (operator.get(f"/dead-letters/{letter.id}{q}") for q in ("", "?payload=1"))
    assert str(operated.BIG) not in hidden
    assert "Traceback" in hidden
    assert str(operated.BIG) in shown


def test_dead_letters_are_filtered_by_processor_and_key(operator: Operator) -> None:
    assert "No dead letters" in operator.get("/dead-letters?processor=cut")
    assert "No dead letters match" in operator.get("/dead-letters?key=good")
    page = operator.get("/dead-letters?processor=parking&key=bad")
    assert words(page).count("parked") >= 2
    assert 'name="key" value="bad"' in page


def test_a_pipeline_is_shown_with_versions_phases_and_sparks_page(operator: Operator) -> None:
    page = operator.get("/pipelines/revenue")
    assert "2 active running" in words(page)
    assert "stage: 120" in page
    assert "merge: 33" in page
    assert "addBatch" not in page
    assert 'href="http://localhost:4040"' in page
    assert "milepost pipelines rebuild revenue app:mp" in page
    assert actions(page) == {
        "pause-pipeline", "roll-back-pipeline", "swap-pipeline", "drop-pipeline-version",
    }  # fmt: skip


def test_an_address_that_is_none_is_no_link(operator: Operator, conn: Connection) -> None:
    conn.execute("update milepost.pipelines set spark_page = 'javascript:alert(1)'")
    assert "javascript:" not in operator.get("/pipelines/revenue")


def test_a_rebuild_shows_how_far_it_is_and_how_long_it_takes(
    operator: Operator, conn: Connection
) -> None:
    assert "25% of the log is filled in" in words(operator.get("/pipelines/revenue"))
    history = operator.dashboard.history
    wait_until(lambda: history.now > 0)  # the first sample, which the first page has begun
    later = history.now + 1000
    for second, position in ((0, 0.0), (1, 0.1), (10, 1.0)):
        history.note(later + second, {"pipeline/revenue/position/3": position})
    assert "25% of the log is filled in, about 30 s left" in words(
        operator.get("/pipelines/revenue?again")
    )


def test_the_last_batches_are_kept_while_the_dashboard_runs(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sampler, "start", lambda _: None)  # it would note what is now
    history = operator.dashboard.history
    for second, ms in enumerate((10.0, 10.0, 20.0, 30.0)):
        values = {f"pipeline/revenue/phase/{phase}": ms for phase in ("read", "stage", "merge")}
        history.note(second, values)
    page = operator.get("/pipelines/revenue")
    assert "batch -2 stage: 10 ms" in page
    assert "batch -0 stage: 30 ms" in page
    assert "batch -3" not in page  # equal figures in two seconds are one batch


def test_channels_are_listed_with_depth_limits_and_dead_jobs(operator: Operator) -> None:
    shown = words(operator.get("/queue"))
    assert "limited waiting 4 0 of 2" in shown
    assert "emails idle 0 0" in shown


def test_a_channel_whose_due_jobs_are_still_scheduled_is_not_idle(operator: Operator) -> None:
    """And what is estimated says so: here, the jobs of more channels than are counted."""
    operator.conn.execute(
        """insert into milepost.jobs (channel, content, status, run_at)
        select 'late', '{}'::bytea, 'scheduled'::milepost.job_status, now() - interval '1 hour'
        from generate_series(1, 954)
        union all
        select 'crowd-' || n % 300, '{}'::bytea, 'ready', now()
        from generate_series(1, 6000) as n"""
    )
    operator.dashboard.board.forget()
    shown = words(operator.get("/queue"))
    assert "late waiting 0 0" in shown
    assert "954 (954 due)" in shown
    assert re.search(r"ready ~\d", shown)
    assert "late waiting" in words(operator.get("/"))
    assert "waiting" in words(operator.get("/queue/late"))


def test_a_channel_shows_its_limits_in_a_form_and_its_jobs(operator: Operator) -> None:
    page = operator.get("/queue/limited")
    assert re.search(r'name="max_concurrency"[^>]* value="2"', page)
    assert "TimeoutError: no answer" in page
    assert "limit-channel" in actions(page)


def test_a_family_has_a_limit_for_all_its_channels_and_no_jobs(operator: Operator) -> None:
    operator.act("limit-channel", name="tenant.*", max_concurrency_total=7)
    page = operator.get("/queue/tenant.*")
    assert re.search(r'name="max_concurrency_total"[^>]* value="7"', page)
    assert 'id="jobs"' not in page


def test_jobs_are_found_by_status_and_search(operator: Operator) -> None:
    assert words(operator.get("/jobs?status=dead")).count("TimeoutError") == 2
    assert "bob" in words(operator.get("/jobs?search=bob"))
    assert "No jobs match" in operator.get("/jobs?search=nobody")
    assert "No jobs match" in operator.get("/jobs?status=dead&channel=emails")


def test_many_jobs_are_shown_page_by_page(
    operator: Operator, mp: Milepost, conn: Connection
) -> None:
    mp.put(conn, *(Job("many") for _ in range(60)))
    ids = admin.find_ids(conn, "milepost", channel="many")
    page = operator.get("/jobs?channel=many")
    assert f'href="/jobs/{ids[49]}"' in page
    assert f'href="/jobs/{ids[50]}"' not in page
    following = html.unescape(re.findall(r'href="([^"]*after=[^"]*)"', page)[0])
    assert f'href="/jobs/{ids[50]}"' in operator.get(following)


def test_a_job_shows_its_content_on_request_with_all_digits(operator: Operator) -> None:
    (id_, *_) = admin.find_ids(operator.conn, "milepost", status="dead")
    hidden, shown = (operator.get(f"/jobs/{id_}{query}") for query in ("", "?payload=1"))
    assert str(operated.BIG) not in hidden
    assert "TimeoutError" in hidden
    assert str(operated.BIG) in shown


def test_schedules_are_shown_with_their_next_ticks_in_words(
    operator: Operator, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tick,) = one(conn.execute(NIGHTLY).fetchone())
    # At whatever time of the day it runs, also when the day ends meanwhile.
    now = SimpleNamespace(now=lambda _zone: tick - timedelta(days=1))
    monkeypatch.setattr(schedules, "datetime", now)
    shown = words(operator.get("/schedules"))
    assert re.search(r"nightly every 1 day orphaned in 24 h, tomorrow at \d\d:\d\d:\d\d", shown)
    assert re.search(r"weekly 0 3 \* \* 1 UTC orphaned in .*? Mon .*? at 03:00:00", shown)


def test_the_audit_shows_who_did_what_and_is_filtered_by_subject(operator: Operator) -> None:
    operator.act("pause-processor", name="cut")
    operator.act("pause-channel", name="limited")
    assert "local pause-processor cut name: cut" in words(operator.get("/audit"))
    of_one = words(operator.get("/audit?subject=limited"))
    assert "pause-channel" in of_one
    assert "pause-processor" not in of_one


def test_a_query_that_makes_no_sense_shows_something_all_the_same(operator: Operator) -> None:
    for path in ("/jobs?status=x&after=y&search=%00", "/audit?before=-1", "/dead-letters?key=%00",
                 "/processors/cut?version=x", f"/jobs?after={2**70}"):  # fmt: skip
        assert operator.client.get(path).status_code == 200, path


def test_a_read_only_dashboard_offers_no_action(mp: Milepost, conn: Connection) -> None:
    with closing(dashboard(mp, read_only=True)) as made:
        operator = Operator(made, conn)
        offered = {path: actions(operator.get(path)) for path in PATHS}
    assert offered == {path: set() for path in PATHS}


def test_links_and_forms_respect_the_prefix(operator: Operator) -> None:
    own = re.compile(r'(?:href|action|src)="(/[^"]*)"')
    mounted = operator.mounted("/tools/milepost")
    for path in (*PATHS, "/audit"):
        page = operator.client.get(path).text
        below = mounted.get(f"/tools/milepost{path}").text
        links = [f"/tools/milepost{each}" for each in own.findall(page)]
        assert (path, links) == (path, own.findall(below))
