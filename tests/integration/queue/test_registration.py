"""Mistakes that are refused where they are made, and what a handler is given."""

from __future__ import annotations

from typing import Any

import pytest

from milepost import Job, Message, Milepost, TakenJob
from milepost.db import Connection
from tests.integration.queue.worker.working import is_empty, working
from tests.waiting import wait_until


def test_a_parameter_with_a_default_is_not_given_the_transaction(
    mp: Milepost, conn: Connection
) -> None:
    given: list[Any] = []

    @mp.worker("emails")
    def send(job: TakenJob, dry_run: bool = False) -> None:
        given.append(dry_run)

    mp.put(conn, Job("emails"))
    with working(send):
        wait_until(lambda: is_empty(conn))
    assert given == [False]


def test_a_put_without_a_connection_says_what_is_missing(mp: Milepost, conn: Connection) -> None:
    with pytest.raises(TypeError, match=r"given a job instead of a connection.*put\(conn, job"):
        mp.put(Job("emails"))  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="is a Message: expected a psycopg connection"):
        mp.append(Message("Placed", 1))  # type: ignore[call-overload]
    assert is_empty(conn)


def test_a_worker_without_a_channel_is_refused(mp: Milepost) -> None:
    with pytest.raises(TypeError, match=r"needs the name of its channel.*@mp.worker\('emails'\)"):

        @mp.worker  # type: ignore[arg-type]
        def send(job: TakenJob) -> None: ...


def test_a_handler_without_parameters_is_refused(mp: Milepost) -> None:
    with pytest.raises(TypeError, match=r"send\(\) cannot be given its job"):

        @mp.worker("emails")
        def send() -> None: ...

    assert "emails" not in mp.workers
