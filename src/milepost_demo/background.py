"""Work in a background thread of the demo."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def in_background(work: Callable[[], T], name: str) -> Future[T]:
    """Not in an executor, whose threads are not daemons: a server that hangs must not prevent the
    demo from ending."""
    future = Future[T]()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised by result()
            future.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return future
