"""A server that is starting is waited for, also by the first connection of a process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import psycopg
import pytest

from milepost import Milepost, db
from milepost.embedded import EmbeddedServer
from milepost.errors import NotMigrated
from tests.server import postgres
from tests.waiting import wait_until


@contextmanager
def starting(server: EmbeddedServer) -> Iterator[None]:
    """It recovers from an archive that answers when the gate is there, where it may look."""
    server.stop()
    data = server.directory / "postgres"
    gate = data / "gate"
    (data / "recovery.signal").touch()
    wait = f"until test -e {gate}; do sleep 0.05; done; false"
    with (data / "postgresql.auto.conf").open("a") as settings:
        settings.write(f"restore_command = '{wait}'\n")
    thread = threading.Thread(target=server.start, daemon=True)
    thread.start()
    try:
        yield
    finally:
        gate.touch()
        thread.join(60)


def is_starting(url: str) -> bool:
    try:
        with db.connect(url):
            return False
    except psycopg.OperationalError as error:
        return "the database system is" in str(error)


def test_the_first_connection_waits() -> None:
    with postgres() as server:
        url = server.start()
        mp = Milepost(url)
        mp.processor("first")(lambda *_: None)
        raised: list[BaseException] = []

        def run() -> None:
            try:
                mp.run()
            except BaseException as error:  # noqa: BLE001 - looked at by the test
                raised.append(error)

        with starting(server):
            wait_until(lambda: is_starting(url))
            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            thread.join(1.0)
            assert thread.is_alive(), raised
        thread.join(60)
        # It has reached the server, where nobody has migrated anything.
        assert [type(error) for error in raised] == [NotMigrated]


def test_a_wrong_password_is_not_waited_for(url: str) -> None:
    mp = Milepost(f"{url} user=nobody_knows")
    mp.processor("first")(lambda *_: None)
    with pytest.raises(psycopg.OperationalError, match="nobody_knows"):
        mp.run()


@pytest.mark.parametrize("until", ["stopped", "caught_up"])
def test_a_run_that_starts_during_a_failover_waits(
    until: Literal["stopped", "caught_up"], caplog: pytest.LogCaptureFixture
) -> None:
    """As one does that was connected before. One that ends by itself does not."""
    with postgres() as server:
        url = server.start()
        server.stop()
        mp = Milepost(url)
        mp.processor("first")(lambda *_: None)
        raised: list[BaseException] = []

        def run() -> None:
            try:
                mp.run(until=until)
            except BaseException as error:  # noqa: BLE001 - looked at by the test
                raised.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        if until == "caught_up":
            thread.join(60)
            assert [type(error) for error in raised] == [psycopg.OperationalError]
            return
        wait_until(lambda: "the server cannot be reached, tries again" in caplog.text)
        assert not raised
        server.start()
        thread.join(60)
        assert [type(error) for error in raised] == [NotMigrated]


def test_a_host_that_nobody_knows_is_not_waited_for() -> None:
    mp = Milepost("postgresql://x@no-such-host.invalid/x")
    mp.processor("first")(lambda *_: None)
    with pytest.raises(psycopg.OperationalError, match="no-such-host"):
        mp.run()
