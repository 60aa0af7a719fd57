from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Any

import pytest

from milepost.errors import ResourceFailed
from milepost.queue.handlers.call import HandlerCalls
from milepost.queue.handlers.resources import Resources

NOTES: list[str] = []


@pytest.fixture(autouse=True)
def _no_notes() -> None:
    NOTES.clear()


def client() -> Iterator[str]:
    NOTES.append("opened")
    yield "client"
    NOTES.append("closed")


async def session() -> AsyncIterator[str]:
    await asyncio.sleep(0)
    NOTES.append("opened on the loop")
    yield "session"
    NOTES.append("closed on the loop")


def needs(*names: str) -> Any:
    text = f"lambda job, *, {', '.join(names)}: None"
    return HandlerCalls(eval(text)).resolved(names)  # noqa: S307 - a handler with these names


def test_what_a_handler_names_is_opened_and_closed_with_the_worker() -> None:
    resources = Resources()
    resources.add(client)
    resources.add(contextmanager(client), "second")
    with ExitStack() as stack:
        assert resources.open("emails", needs("second"), stack) == {"second": "client"}
        assert NOTES == ["opened"]
    assert NOTES == ["opened", "closed"]


def test_an_async_worker_opens_both_kinds() -> None:
    resources = Resources()
    resources.add(client)
    resources.add(session)

    async def run() -> dict[str, Any]:
        async with AsyncExitStack() as stack:
            return await resources.open_async("emails", needs("client", "session"), stack)

    assert asyncio.run(run()) == {"client": "client", "session": "session"}
    assert NOTES == ["opened", "opened on the loop", "closed on the loop", "closed"]


def test_an_error_at_opening_names_the_resource_and_closes_the_others() -> None:
    def broken() -> Iterator[str]:
        raise ConnectionError("no route")
        yield ""

    resources = Resources()
    resources.add(broken, "zone")
    resources.add(client)
    with ExitStack() as stack, pytest.raises(ResourceFailed, match=r"'zone'.*no route") as raised:
        resources.open("emails", needs("client", "zone"), stack)
    assert raised.value.name == "zone"
    assert NOTES == ["opened", "closed"]


def test_a_worker_that_names_what_is_not_there_is_refused() -> None:
    def send(job: Any, *, clent: str) -> None: ...

    resources = Resources()
    resources.add(client)
    calls = HandlerCalls(send).resolved(resources.names)
    with pytest.raises(TypeError, match=r"clent of send\(job, clent\).*the resources are: client"):
        resources.check("emails", calls, is_async=False)


def test_a_def_handler_cannot_have_an_async_resource() -> None:
    resources = Resources()
    resources.add(session)
    with pytest.raises(TypeError, match="'session' is async"):
        resources.check("emails", needs("session"), is_async=False)


@pytest.mark.parametrize("function", [lambda: 1, lambda size: (yield size)])
def test_what_is_no_generator_without_parameters_is_refused(function: Any) -> None:
    with pytest.raises(TypeError, match="one yield"):
        Resources().add(function, "client")


@pytest.mark.parametrize("name", ["tx", "job", "client"])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    resources = Resources()
    resources.add(client)
    with pytest.raises(ValueError, match=name):
        resources.add(client, name)
