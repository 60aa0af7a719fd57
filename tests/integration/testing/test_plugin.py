"""The plugin as a user has it: small projects whose tests are run by pytest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.testing.project import Project
from tests.server import TestServer

SHOP = """
    from datetime import timedelta

    from milepost import Job, Message, Milepost, Repeat, append, put

    mp = Milepost()
    mp.schedule("report", Repeat(timedelta(hours=1)), Job("reports", "hourly"))


    @mp.processor("billing", topics=["orders"])
    def bill(messages, tx):
        for message in messages:
            tx.execute("insert into bills values (%s)", [message.data["total"]])
            append(tx, Message("Billed", message.data, key=message.key, topic="bills"))
            put(tx, Job("mails", {"total": message.data["total"]}))


    @mp.worker("mails")
    def send(job, tx):
        tx.execute("insert into mails values (%s)", [job.content["total"]])


    @mp.worker("reports")
    async def report(job, tx):
        await tx.execute("insert into reports values (%s)", [job.content])


    def place_order(total):
        with mp.connect() as conn, conn.transaction():
            append(conn, Message("OrderPlaced", {"total": total}, key="o", topic="orders"))
"""
CONFTEST = """
    import psycopg
    import pytest


    @pytest.fixture(scope="session")
    def milepost_template(milepost_template_url):
        conn = psycopg.connect(milepost_template_url, autocommit=True)  # and it is never closed
        conn.execute("create table bills (total int)")
        conn.execute("create table mails (total int)")
        conn.execute("create table reports (name text)")
        globals()["kept"] = conn
"""
TESTS = """
    import shop
    from milepost import Job, Message

    ORDER = Message("OrderPlaced", {"total": 42}, key="o", topic="orders")


    def rows(mp, table):
        with mp.connect() as conn:
            return conn.execute(f"select * from {table}").fetchall()


    def test_everything_is_drained(mp):
        shop.place_order(42)
        mp.drain()
        assert rows(mp, "bills") == rows(mp, "mails") == [(42,)]
        assert [m.data for m in mp.messages(type="Billed", topic="bills", key="o")] == [{"total": 42}]
        assert mp.messages(key="another") == []
        assert mp.jobs() == []


    def test_jobs_are_seen(mp):
        shop.place_order(7)
        mp.drain("billing")
        (job,) = mp.jobs(channel="mails", status="ready")
        assert job.content == {"total": 7}
        assert mp.jobs(status="dead") == []


    def test_nothing_is_left_of_other_tests(mp):
        assert mp.messages() == [] and rows(mp, "bills") == []


    def test_time_passes(mp):
        mp.drain()
        assert rows(mp, "reports") == []
        mp.clock.move(minutes=59)
        mp.drain()
        assert rows(mp, "reports") == []
        mp.clock.move(minutes=2)
        mp.drain()
        assert rows(mp, "reports") == [("hourly",)]
        mp.drain()
        assert rows(mp, "reports") == [("hourly",)]
        mp.clock.move(hours=5)
        mp.drain()
        assert rows(mp, "reports") == [("hourly",)] * 2


    def test_effects_of_a_function(mp):
        effects = mp.effects_of(lambda: (shop.place_order(3), mp.drain("billing")))
        assert effects.added("bills") == [{"total": 3}]
        assert [m["type"] for m in effects.messages] == ["Billed", "OrderPlaced"]
        assert [j["content"] for j in effects.jobs] == [{"total": 3}]
        assert effects.tables == ["bills", "milepost.messages", "milepost.jobs"]
        assert mp.effects_of(lambda: None).tables == []


    def test_given_when_then(given):
        given(ORDER).when(shop.bill).then(
            rows={"bills": [{"total": 42}]},
            messages=[Message("Billed", {"total": 42}, key="o", topic="bills")],
            jobs=[Job("mails", {"total": 42})],
        )
        given(Job("reports", "x")).when(shop.report).then(rows={"reports": [{"name": "x"}]})
"""


@pytest.fixture
def project(tmp_path: Path, server: TestServer) -> Project:
    return Project(tmp_path, server.base_url)


def test_a_global_application_is_bound_to_the_database_of_each_test(project: Project) -> None:
    project.write(shop=SHOP, conftest=CONFTEST, test_shop=TESTS)
    project.configure("milepost_app = shop:mp\nfilterwarnings = error")
    found = project.run()
    assert found.counts == {"passed": 6}, found.output
    assert not (project.place / ".milepost").exists()  # no embedded server was started for it


def test_without_a_server_each_process_of_xdist_starts_one(project: Project) -> None:
    project.server = None
    project.write(shop=SHOP, conftest=CONFTEST, test_shop=TESTS)
    project.configure("milepost_app = shop:mp")
    found = project.run("-n", "2")
    assert found.counts == {"passed": 6}, found.output
