"""Type checkers know what is to be awaited: `make check` fails where a type is another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import assert_type

import psycopg
import sqlmodel
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlmodel.ext.asyncio.session import AsyncSession as SqlmodelAsyncSession

from milepost import Job, Message, Milepost, Position, append, put, put_group
from tests.integration.drivers.kinds import sqlalchemy_url

MESSAGE, JOB = Message("Placed", 1), Job("emails")


def test_what_blocks_answers_immediately(url: str, mp: Milepost) -> None:
    engine = create_engine(sqlalchemy_url(url))
    scoped = scoped_session(sessionmaker(engine))
    with psycopg.connect(url) as conn, Session(engine) as session, engine.connect() as connection:
        assert_type(append(conn, MESSAGE), list[Position])
        assert_type(append(session, MESSAGE), list[Position])
        assert_type(append(connection, MESSAGE), list[Position])
        assert_type(mp.put(session, JOB), list[int])
        assert_type(put_group(connection, [JOB], JOB), tuple[list[int], int])
        session.commit()
        connection.commit()
    with sqlmodel.Session(engine) as model_session, scoped() as session:
        assert_type(append(model_session, MESSAGE), list[Position])
        assert_type(mp.append(scoped, MESSAGE), list[Position])
        model_session.commit()
        scoped.commit()
    engine.dispose()
    assert len(list(mp.read())) == 5


def test_what_is_async_is_awaited(url: str, mp: Milepost) -> None:
    async def main() -> None:
        engine = create_async_engine(sqlalchemy_url(url))
        scoped = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
        async with await psycopg.AsyncConnection.connect(url) as conn:
            found = append(conn, MESSAGE)
            assert_type(found, Awaitable[list[Position]])
            assert_type(await found, list[Position])
        async with AsyncSession(engine) as session, session.begin():
            assert_type(await append(session, MESSAGE), list[Position])
            assert_type(await put(session, JOB), list[int])
        async with engine.begin() as connection:
            assert_type(await append(connection, MESSAGE), list[Position])
            assert_type(await mp.put_group(connection, [JOB], JOB), tuple[list[int], int])
        async with SqlmodelAsyncSession(engine) as model_session, model_session.begin():
            assert_type(await mp.append(model_session, MESSAGE), list[Position])
        assert_type(await append(scoped, MESSAGE), list[Position])
        await scoped.commit()
        await scoped.remove()
        await engine.dispose()

    asyncio.run(main())
    assert len(list(mp.read())) == 5
