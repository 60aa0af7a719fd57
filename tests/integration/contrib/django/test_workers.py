"""Handlers of jobs and Django's ORM share one transaction with the end of the job."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction

from milepost import Job, Milepost
from milepost.contrib.django import put
from milepost.db import one
from tests.integration.contrib.django.billing import totals
from tests.integration.contrib.django.shop.models import Order
from tests.waiting import wait_until

OTHERS = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name <> 'milepost' and pid <> %s
  and backend_type = 'client backend'
"""


@pytest.mark.parametrize("handle", ["job", "batch"])
def test_a_workers_effects_commit_with_the_end_of_the_job(mp: Milepost, handle: Any) -> None:
    with transaction.atomic():
        ids = put(Job("orders", {"number": 1}, max_attempts=1), Job("orders", {"number": 2}))
    seen: list[Any] = []

    def work(given: Any, tx: Any) -> None:
        for job in given if isinstance(given, list) else [given]:
            Order.objects.create(number=job.content["number"])
            transaction.on_commit(lambda: seen.append(sorted(totals())))

    mp.worker("orders", handle=handle, concurrency=1)(work)
    mp.run(until="drained", fail_fast=True)
    assert sorted(totals()) == [1, 2]
    assert seen[-1] == [1, 2]
    assert len(ids) == len(seen) == 2


def test_a_workers_effects_are_undone_if_it_fails(mp: Milepost) -> None:
    with transaction.atomic():
        put(Job("orders", max_attempts=1))

    def work(job: Any, tx: Any) -> None:
        Order.objects.create(number=1)
        raise RuntimeError("too late")

    mp.worker("orders")(work)
    mp.run(until="drained")
    assert totals() == {}


def test_a_worker_without_tx_has_a_connection_of_its_own_that_does_not_stay_open(
    mp: Milepost,
) -> None:
    with transaction.atomic():
        put(*(Job("orders", number) for number in range(20)))
    seen: list[bool] = []

    def work(job: Any) -> None:
        Order.objects.create(number=job.content)
        seen.append(connection.in_atomic_block)

    mp.worker("orders", concurrency=4)(work)
    mp.run(until="drained", fail_fast=True)
    assert (len(totals()), set(seen)) == (20, {False})
    with mp.connect() as conn:
        own = connection.connection.info.backend_pid

        def others() -> Any:
            return one(conn.execute(OTHERS, [own]).fetchone())[0]

        wait_until(lambda: others() == 0)  # the server notices a little later


def test_a_task_with_tx_uses_the_orm_in_its_transaction(mp: Milepost) -> None:
    seen: list[bool] = []

    @mp.task
    def bill_one(tx: Any, number: int) -> None:
        Order.objects.create(number=number)
        seen.append(connection.in_atomic_block)

    with transaction.atomic():
        put(bill_one.job(number=3))
    mp.run(until="drained", fail_fast=True)
    assert (sorted(totals()), seen) == ([3], [True])
