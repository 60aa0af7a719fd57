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
        (billed,) = mp.messages(type="Billed", topic="bills", key="o")
        assert billed.data == {"total": 42}
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


def test_an_application_from_a_factory_and_async_tests(project: Project) -> None:
    project.write(
        shop="""
            from milepost import Milepost

            def make_app(url):
                mp = Milepost(url)

                @mp.processor("count")
                async def count(messages, tx):
                    await tx.execute("create table counted as select %s::int as n", [len(messages)])

                return mp
        """,
        conftest="""
            import pytest
            import shop

            @pytest.fixture
            def milepost_app(milepost_url):
                return shop.make_app(milepost_url)

            @pytest.fixture
            def anyio_backend():
                return "asyncio"
        """,
        test_shop="""
            import asyncio

            import psycopg
            import pytest
            from milepost import Message, append

            pytestmark = pytest.mark.anyio

            async def test_async(mp, given):
                async with await psycopg.AsyncConnection.connect(mp.url) as conn:
                    await append(conn, Message("A", {}), Message("B", {}))
                await asyncio.to_thread(mp.drain)
                async with await psycopg.AsyncConnection.connect(mp.url) as conn:
                    assert await (await conn.execute("select n from counted")).fetchone() == (2,)

            async def test_given_in_a_coroutine(mp, given):
                effects = given(Message("A", {})).when(mp.processors["count"]).then().effects
                assert effects.added("counted") == [{"n": 1}]
        """,
    )
    found = project.run()
    assert found.counts == {"passed": 2}, found.output


ENGINES = """
    import os

    from milepost import Job, Message, Milepost
    from sqlalchemy import create_engine, event, make_url, text
    from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

    URL = make_url(os.environ.get("MILEPOST_URL", "postgresql://nowhere.invalid/shop"))
    engine = create_async_engine(URL.set(drivername="postgresql+asyncpg"))
    AsyncSessionLocal = async_sessionmaker(engine)
    reports = create_engine(URL.set(drivername="postgresql+psycopg"))
    mp = Milepost(engine=engine, session=AsyncSessionLocal)
    opened = []


    @event.listens_for(reports, "connect")
    def note(connection, record):
        opened.append(connection)


    @mp.processor("billing")
    async def bill(messages, session):
        await session.execute(text("insert into bills values (1)"))


    async def place_order():
        async with AsyncSessionLocal.begin() as session:
            await mp.append(session, Message("OrderPlaced", {}))
            await mp.put(session, Job("mails"))


    def report():
        with reports.begin() as connection:
            return connection.scalar(text("select count(*) from bills"))
"""
OVERRIDES = """
    import pytest
    import shop


    @pytest.fixture
    def milepost_engines():
        return [shop.reports, shop.engine]  # that of Milepost(engine=...) may be there


    @pytest.fixture
    def anyio_backend():
        return "asyncio"


    @pytest.fixture(scope="session")
    def milepost_template(milepost_template_url):
        from alembic.config import Config
        from sqlalchemy import create_engine, text

        config = Config()
        url = milepost_template_url.replace("postgresql:", "postgresql+psycopg:")
        config.set_main_option("sqlalchemy.url", url)
        engine = create_engine(config.get_main_option("sqlalchemy.url"))
        with engine.begin() as connection:
            connection.execute(text("create table bills (total int)"))
        engine.dispose()
"""


def test_an_application_with_engines_of_its_own(project: Project) -> None:
    """Twice: each test has an event loop of its own, and a database of its own."""
    project.write(
        shop=ENGINES,
        conftest=OVERRIDES,
        test_shop="""
            import asyncio

            import asyncpg
            import pytest
            import shop
            from sqlalchemy.exc import OperationalError

            @pytest.mark.anyio
            @pytest.mark.parametrize("number", [1, 2])
            async def test_all_use_one_database(mp, milepost_url, number):
                await shop.place_order()
                await asyncio.to_thread(mp.drain, "billing")
                assert shop.report() == 1 and len(shop.opened) == number
                assert len(await asyncio.to_thread(mp.messages)) == 1
                assert len(await asyncio.to_thread(mp.jobs)) == 1
                plain = await asyncpg.connect(milepost_url)
                assert await plain.fetchval("select count(*) from bills") == 1
                await plain.close()
                assert shop.engine.url.database in milepost_url

            def test_the_engines_are_as_before():
                with pytest.raises(OperationalError, match="list-engines-of-your-own-in-milepost"):
                    shop.report()
        """,
    )
    project.configure("milepost_app = shop:mp\nfilterwarnings = error")
    found = project.run()
    assert found.counts == {"passed": 3}, found.output


def test_mistakes_are_said(project: Project) -> None:
    """Each of these tests fails, and says why."""
    project.write(
        shop=SHOP,
        conftest=CONFTEST,
        test_shop="""
            import pytest
            import shop
            from milepost import Job, Message

            ORDER = Message("OrderPlaced", {"total": 42}, topic="orders")

            def test_without_mp():
                shop.place_order(1)

            def test_other_rows(given):
                given(ORDER).when(shop.bill).then(rows={"bills": [{"total": 1}]})

            def test_other_jobs(given):
                given(ORDER).when(shop.bill).then(jobs=[])

            def test_no_error(given):
                given(ORDER).when(shop.bill).then(raises=ValueError)

            def test_an_error(given):
                def fail(messages, tx):
                    raise ValueError("no")
                given(ORDER).when(fail).then()

            def test_something(given):
                given(ORDER).when(shop.bill).then_nothing()

            def test_jobs_for_a_processor(given):
                given(Job("mails")).when(shop.bill).then()

            def test_back(mp):
                mp.clock.move(hours=-1)
        """,
    )
    project.configure("milepost_app = shop:mp")
    found = project.run("--tb=short")
    assert found.counts == {"failed": 8}, found.output
    for words in (
        "use-the-fixture-mp.and-list-engines-of-your-own-in-milepost-engines",
        r'  missing     {"total": 1}',
        r'  unexpected  {"total": 42}',
        "The jobs put are not as expected:",
        "Expected ValueError, but nothing was raised.",
        "The handler failed. To expect it: then(raises=...).",
        "Expected no effects, but these tables changed: ['bills',",
        "a processor is given objects of Message",
        "time does not go back",
    ):
        assert words in found.output, found.output


def test_a_run_without_its_fixtures_imports_nothing(project: Project) -> None:
    project.write(
        test_nothing="""
            import sys

            def test_nothing():
                assert not [name for name in sys.modules if name.split(".")[0] == "milepost"]
                assert "psycopg" not in sys.modules
        """
    )
    found = project.run("-p", "no:hypothesispytest")
    assert found.counts == {"passed": 1}, found.output
    assert re.search("plugins:.*milepost", found.output)
