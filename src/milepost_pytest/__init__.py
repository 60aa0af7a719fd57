"""Milepost's plugin for pytest: a server, a database for each test, and the application on it.

pytest imports this module in every run. So it imports nothing but pytest: the rest is imported by
the fixtures that need it. It is not in the package `milepost`, which would be imported with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from milepost import Milepost
    from milepost.drivers import AnyEngine
    from milepost.sql import LogOrder
    from milepost.testing import Given, MilepostUnderTest
    from milepost.testing.databases import Databases

APP = "milepost_app"
# What an application is bound to that is imported by a test and not yet bound to its database, and
# an engine that nobody has bound. The error of a connection shows this name.
UNBOUND = (
    "postgresql://use-the-fixture-mp.and-list-engines-of-your-own-in-milepost-engines.invalid"
    "/milepost_test_unbound"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(APP, "the Milepost object of the application, as in shop.app:mp", default="")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before a conftest.py imports the application: `Milepost()` must not start an embedded server,
    nor find the database of a developer."""
    if early_config.getini(APP):
        os.environ["MILEPOST_URL"] = UNBOUND


@pytest.fixture(scope="session")
def milepost_server() -> Iterator[Databases]:
    """MILEPOST_TEST_URL, or an embedded server that ends with the run. With pytest-xdist, each of
    its processes has its own."""
    from milepost.testing.databases import Databases, embedded_databases

    if url := os.environ.get("MILEPOST_TEST_URL"):
        with closing(Databases(url)) as given:
            yield given
        return
    with embedded_databases() as started:
        yield started


@pytest.fixture(scope="session")
def milepost_schema(pytestconfig: pytest.Config) -> str:
    """The schema of the application."""
    app = _named_app(pytestconfig)
    return "milepost" if app is None else app.schema


@pytest.fixture(scope="session")
def milepost_order() -> LogOrder | None:
    """The order of the log; None is the default. Override it for "transaction"."""
    return None


@pytest.fixture(scope="session")
def milepost_template_url(
    milepost_server: Databases, milepost_schema: str, milepost_order: LogOrder | None
) -> Iterator[str]:
    """A database with Milepost's schema, from which the databases of all tests are copied."""
    from milepost import Milepost

    name = milepost_server.create_database("test_template")
    url = milepost_server.url(name)
    Milepost(url, schema=milepost_schema).migrate(milepost_order)
    yield url
    milepost_server.drop_database(name)


@pytest.fixture(scope="session")
def milepost_template(milepost_template_url: str) -> None:
    """Override it to run the application's own migrations in `milepost_template_url`."""


@pytest.fixture(scope="session")
def _milepost_copied(
    milepost_server: Databases,
    milepost_template_url: str,
    milepost_template: None,  # noqa: ARG001 - it has to be done
    milepost_schema: str,
) -> str:
    """The name of the template, when nobody is connected to it any more."""
    from psycopg.conninfo import conninfo_to_dict

    name = str(conninfo_to_dict(milepost_template_url)["dbname"])
    milepost_server.make_template(name, milepost_schema)
    return name


@pytest.fixture
def milepost_url(milepost_server: Databases, _milepost_copied: str) -> Iterator[str]:
    """The URL of a database for this test alone."""
    name = milepost_server.create_database("test", template=_milepost_copied)
    yield milepost_server.url(name)
    milepost_server.drop_database(name)


@pytest.fixture
def milepost_app(pytestconfig: pytest.Config, milepost_url: str) -> Milepost:
    """The application. Override it, or name it in the setting `milepost_app`. It may be a global
    object or a new one: `mp` binds it to the test's database."""
    from milepost import Milepost

    return _named_app(pytestconfig) or Milepost(milepost_url)


@pytest.fixture
def milepost_engines() -> Sequence[AnyEngine]:
    """Engines of SQLAlchemy that the application uses, beside that of `Milepost(engine=...)`.
    Override it: `mp` binds them to the test's database too."""
    return ()


@pytest.fixture
def mp(
    milepost_app: Milepost, milepost_url: str, milepost_engines: Sequence[AnyEngine]
) -> Iterator[MilepostUnderTest]:
    """The application, on a database of this test alone, with `drain`, `messages`, `jobs`, `clock`,
    `effects_of` and `given`."""
    from milepost.testing import MilepostUnderTest

    with MilepostUnderTest.of(milepost_app, milepost_url, milepost_engines) as bound:
        yield bound


@pytest.fixture
def given(mp: MilepostUnderTest) -> Callable[..., Given]:
    """`given(messages).when(handler).then(...)`."""
    return mp.given


def _named_app(config: pytest.Config) -> Milepost | None:
    name: str = config.getini(APP)
    found: Milepost | None = resolve_name(name) if name else None
    return found
