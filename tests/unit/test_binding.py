"""`session=` where it cannot work is refused when the handler is registered."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.ext.asyncio import async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

from milepost import Milepost

SessionLocal = sessionmaker()


@pytest.fixture
def mp() -> Milepost:
    return Milepost("postgresql://nowhere")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"delivery": "at_least_once"}, "with delivery='at_least_once' there is none"),
        ({"engine": "spark", "segments": 2}, "handlers that run in this process"),
    ],
)
def test_a_processor_without_a_transaction_has_no_session(
    mp: Milepost, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        mp.processor("billing", session=SessionLocal, **options)


def test_an_async_factory_is_for_async_handlers(mp: Milepost) -> None:
    with pytest.raises(TypeError, match="the handler is def"):

        @mp.processor("billing", session=async_sessionmaker())
        def bill(messages: list[Any], session: Session) -> None: ...

    with pytest.raises(TypeError, match="the handler is def"):

        @mp.worker("bills", session=async_sessionmaker())
        def send(job: Any, session: Session) -> None: ...


def test_a_worker_that_takes_no_transaction_needs_no_session(mp: Milepost) -> None:
    with pytest.raises(TypeError, match=r"send\(job\) takes no transaction"):

        @mp.worker("bills", session=SessionLocal)
        def send(job: Any) -> None: ...


def test_a_session_is_given_only_by_a_worker_that_has_a_factory(mp: Milepost) -> None:
    with pytest.raises(TypeError, match="has no session="):

        @mp.worker("bills")
        def send(job: Any, db: Session) -> None: ...


def test_a_resource_may_be_called_session(mp: Milepost) -> None:
    """Without `session=`, the name says nothing."""

    @mp.resource
    def session() -> Any:
        yield object()

    @mp.worker("bills")
    def send(job: Any, session: Any) -> None: ...

    assert not send.definition.is_transactional
