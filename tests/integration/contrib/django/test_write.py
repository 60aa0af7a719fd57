"""append and put in the transaction of a Django connection."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.transaction import TransactionManagementError
from django.test import override_settings

from milepost import Job, Message, Milepost, db
from milepost.contrib.django import append, put
from milepost.errors import InvalidMessage, NotMigrated, OutsideAtomic
from tests.integration.contrib.django.shop.models import Order

FEW, MANY = 3, 300  # many are written with COPY


def messages(count: int) -> list[Message]:
    return [Message("OrderPlaced", {"n": number}, key=f"k{number}") for number in range(count)]


def jobs(count: int) -> list[Job]:
    """Not plain ones: those need the server's time."""
    later = datetime.now(UTC) + timedelta(hours=1)
    return [Job("mail", {"n": number}, run_at=later, priority=1) for number in range(count)]


def write(count: int) -> None:
    append(*messages(count))
    put(*jobs(count))


def written(mp: Milepost) -> tuple[int, int]:
    with mp.connect() as conn:
        row = conn.execute(
            "select (select count(*) from milepost.messages), (select count(*) from milepost.jobs)"
        ).fetchone()
    found: tuple[int, int] = db.one(row)
    return found


@pytest.mark.parametrize("count", [1, FEW, MANY])
def test_they_exist_exactly_if_the_block_commits(mp: Milepost, count: int) -> None:
    with suppress(RuntimeError), transaction.atomic():
        write(count)
        raise RuntimeError
    assert written(mp) == (0, 0)
    with transaction.atomic():
        Order.objects.create(number=1)
        write(count)
        assert written(mp) == (0, 0)  # as others see it
    assert written(mp) == (count, count)
    assert Order.objects.count() == 1


@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_savepoint_undoes_what_is_written_inside(mp: Milepost, count: int) -> None:
    with transaction.atomic():
        write(1)
        with suppress(RuntimeError), transaction.atomic():
            write(count)
            raise RuntimeError
        write(1)
    assert written(mp) == (2, 2)


@pytest.mark.parametrize("count", [FEW, MANY])
def test_outside_of_atomic_it_is_refused_unless_that_is_meant(mp: Milepost, count: int) -> None:
    with pytest.raises(OutsideAtomic, match=r"append\(\.\.\., outside_atomic=True\)"):
        append(*messages(count))
    with pytest.raises(OutsideAtomic, match="Nothing was written"):
        put(*jobs(count))
    assert written(mp) == (0, 0)
    append(*messages(count), outside_atomic=True)
    put(*jobs(count), outside_atomic=True)
    assert written(mp) == (count, count)


def test_the_blocks_of_a_test_case_do_not_count_as_atomic(mp: Milepost) -> None:
    block = transaction.atomic()
    block._from_testcase = True
    with block:
        with pytest.raises(OutsideAtomic):
            append(*messages(1))
        with transaction.atomic():
            append(*messages(1))


def test_manual_transactions_are_the_users_own(mp: Milepost) -> None:
    transaction.set_autocommit(False)
    try:
        write(FEW)
        assert written(mp) == (0, 0)
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    assert written(mp) == (FEW, FEW)


def test_a_broken_block_is_refused(mp: Milepost) -> None:
    with transaction.atomic():
        with pytest.raises(DatabaseError):
            Order.objects.create(number=2**40)
        with pytest.raises(TransactionManagementError):
            append(*messages(1))
    assert written(mp) == (0, 0)


def test_a_statement_of_ours_that_breaks_the_block_is_not_committed_over(mp: Milepost) -> None:
    """PostgreSQL would answer a COMMIT with a rollback, and nobody would know."""
    with transaction.atomic():
        Order.objects.create(number=1)
        with override_settings(MILEPOST={"SCHEMA": "nowhere"}), pytest.raises(NotMigrated):
            append(*messages(1))
        with pytest.raises(TransactionManagementError):
            Order.objects.count()
    assert Order.objects.count() == 0


def test_what_is_refused_before_it_is_sent_does_not_break_the_block(mp: Milepost) -> None:
    with transaction.atomic():
        with pytest.raises(InvalidMessage):
            append(Message("x", object()))
        write(1)
    assert written(mp) == (1, 1)


@pytest.mark.parametrize("count", [FEW, MANY])
def test_a_project_without_time_zones_writes_too(mp: Milepost, count: int) -> None:
    with override_settings(USE_TZ=False):
        connection.close()
        with transaction.atomic():
            write(count)
    connection.close()
    assert written(mp) == (count, count)


def test_server_side_binding_makes_no_difference(mp: Milepost) -> None:
    connection.close()
    connection.settings_dict["OPTIONS"]["server_side_binding"] = True
    try:
        with transaction.atomic():
            write(FEW)
            write(MANY)
    finally:
        connection.close()
        del connection.settings_dict["OPTIONS"]["server_side_binding"]
    assert written(mp) == (FEW + MANY, FEW + MANY)


@pytest.mark.parametrize("call", [append, put])
def test_an_unknown_alias_is_an_error_of_django(project: None, call: Callable[..., Any]) -> None:
    with pytest.raises(Exception, match="nowhere"):
        call(using="nowhere")
