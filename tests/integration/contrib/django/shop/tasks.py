"""Its tasks."""

from __future__ import annotations

from typing import Any

from django.db import connection, transaction
from django_tasks import TaskContext, task

from tests.integration.contrib.django.shop.models import Order

seen: list[Any] = []


@task
def add(a: int, b: int = 1) -> int:
    seen.append((a, b))
    return a + b


@task(queue_name="mail", priority=7)
def send(to: str) -> None:
    seen.append(to)


@task(takes_context=True, backend="stubborn", queue_name="again")
def third_time(context: TaskContext) -> int:
    if context.attempt < 3:
        raise ValueError(f"attempt {context.attempt}")
    return context.attempt


@task
def fail(text: str) -> None:
    raise LookupError(text)


@task
async def add_async(number: int) -> int:
    await Order.objects.acreate(number=number)
    return number


@task(backend="atomic", queue_name="books")
def book(number: int, fails: bool = False) -> bool:
    Order.objects.create(number=number)
    transaction.on_commit(lambda: seen.append("committed"))
    if fails:
        raise LookupError("too late")
    return bool(connection.in_atomic_block)


@task(backend="atomic", queue_name="books")
async def book_async(number: int) -> bool:
    await Order.objects.acreate(number=number)
    return True
