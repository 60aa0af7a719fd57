"""One server a run; for each test a database of its own, cloned from a migrated template."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from milepost import Milepost, app, db, migrate
from milepost.db import Connection
from milepost.runtime import Timing
from milepost.sql import LogOrder
from tests.archiving import Archive
from tests.parallel import (  # noqa: F401 - hooks of pytest-xdist
    pytest_xdist_auto_num_workers,
    pytest_xdist_make_scheduler,
    rank_of,
)
from tests.server import TestServer, postgres
from tests.soak import Figures

# Beyond the defaults: what the tests of prepared transactions and of many writers need; and what
# making a database for each test costs. Tests that crash a server have one of their own, durable.
SETTINGS = {
    "max_prepared_transactions": "20",
    "max_connections": "300",
    "fsync": "off",
    "autovacuum": "off",  # its ANALYZE holds the horizon of a log in transaction order for a moment
}
# A property says what is true, not how soon: an example that a busy machine stalls has not failed.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="with the tests that take minutes")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end. The garbage collector would search it again and again,
    now and between the tests: that takes seconds of each process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--soak"):
        long = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
    items.sort(key=lambda item: rank_of(item.nodeid))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What this machine could not test stands out: in a list of dots nobody misses it."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", []))
    if reasons:
        terminalreporter.section("NOT TESTED ON THIS MACHINE", sep="!", red=True)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} tests: {reason.removeprefix('Skipped: ')}")


@pytest.fixture
def figures(record_property: Callable[[str, object], None]) -> Figures:
    """Notes what a line of `make soak` counts."""
    return Figures(record_property)


@pytest.fixture(scope="session")
def server() -> Iterator[TestServer]:
    """MILEPOST_TEST_URL, or one that ends with the run (MILEPOST_TEST_POSTGRES says which)."""
    if url := os.environ.get("MILEPOST_TEST_URL"):
        with closing(TestServer(url)) as given:
            yield given
        return
    with postgres(SETTINGS) as own, closing(TestServer(own.start())) as started:
        yield started


@pytest.fixture(scope="session")
def template(server: TestServer) -> Iterator[Callable[[LogOrder], str]]:
    """The name of a migrated database of an order, made at the first use."""
    made: dict[LogOrder, str] = {}

    def named(order: LogOrder) -> str:
        if order not in made:
            name = server.create_database(f"template_{order}")
            with db.connect(server.url(name)) as conn:
                migrate.migrate(conn, order=order)
            made[order] = name
        return made[order]

    yield named
    for name in made.values():
        server.drop_database(name)


@pytest.fixture
def empty_database(server: TestServer) -> Iterator[str]:
    """The URL of a database that has never been migrated."""
    name = server.create_database("empty")
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture(params=["append", "transaction"])
def order(request: pytest.FixtureRequest) -> LogOrder:
    """Whatever uses a log runs for both orders, unless it asks for one of them."""
    chosen: LogOrder = request.param
    return chosen


@pytest.fixture
def url(server: TestServer, template: Callable[[LogOrder], str], order: LogOrder) -> Iterator[str]:
    """The URL of a migrated database for this test alone."""
    name = server.create_database("test", template=template(order))
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture
def timing() -> Timing:
    """How often things are looked at, in what a test runs."""
    return Timing()


@pytest.fixture(autouse=True)
def _timed(timing: Timing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the Milepost objects that a test makes by itself."""
    monkeypatch.setattr(app, "Timing", lambda: timing)


@pytest.fixture
def mp(url: str) -> Milepost:
    return Milepost(url)


@pytest.fixture
def conn(mp: Milepost) -> Iterator[Connection]:
    with mp.connect() as connection:
        yield connection


@pytest.fixture
def archive(conn: Connection, url: str, tmp_path: Path) -> Iterator[Archive]:
    """An archive of the test's log, which is empty."""
    with closing(Archive.at(conn, url, tmp_path / "archive")) as made:
        yield made
