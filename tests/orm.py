"""What handlers write through an ORM: a row for each message, and a total for each key."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from milepost import RecordedMessage
from milepost.db import Connection

TABLES = """
    create table noted (number bigint generated always as identity primary key, key text,
        value bigint not null unique);
    create table totals (key text primary key, total bigint not null);
"""


class Base(DeclarativeBase):
    pass


class Noted(Base):
    """One for each message, or each job. A value that is written twice fails."""

    __tablename__ = "noted"
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    key: Mapped[str | None]
    value: Mapped[int] = mapped_column(BigInteger)


class Total(Base):
    __tablename__ = "totals"
    key: Mapped[str] = mapped_column(primary_key=True)
    total: Mapped[int] = mapped_column(BigInteger)


SessionLocal = sessionmaker()


def make_tables(conn: Connection) -> None:
    conn.execute(TABLES.encode())


def values(conn: Connection) -> list[int]:
    return [row[0] for row in conn.execute("select value from noted order by number")]


def totals(conn: Connection) -> dict[str, int]:
    found: list[Any] = conn.execute("select key, total from totals").fetchall()
    return dict(found)


def note(session: Session | AsyncSession, message: RecordedMessage) -> None:
    session.add(Noted(key=message.key, value=message.data["number"]))
