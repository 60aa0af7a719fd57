"""The tables of the shop, its engine and its Sessions."""

from __future__ import annotations

import os

from psycopg import AsyncConnection
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

URL = os.environ.get("MILEPOST_URL", "")  # without it, libpq's own variables say where


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "example_shop_orders"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    customer: Mapped[str]
    total: Mapped[int]
    is_confirmed: Mapped[bool] = mapped_column(default=False)


class Spending(Base):
    """What a customer has spent: filled by the processor, from the log."""

    __tablename__ = "example_shop_spending"
    customer: Mapped[str] = mapped_column(primary_key=True)
    total: Mapped[int]


# The creator takes any URL that psycopg takes. create_async_engine("postgresql+psycopg://...") does
# as well, with a URL of SQLAlchemy's kind.
engine = create_async_engine(
    "postgresql+psycopg://", async_creator=lambda: AsyncConnection.connect(URL)
)
SessionLocal = async_sessionmaker(engine, expire_on_commit=False)


async def create_tables() -> None:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
