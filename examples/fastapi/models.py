"""The tables of the shop, its engine and its Sessions."""

from __future__ import annotations

import os

from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# Without it, libpq's own variables say where.
URL = make_url(os.environ.get("MILEPOST_URL") or "postgresql://")


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


engine = create_async_engine(URL.set(drivername="postgresql+psycopg"))
SessionLocal = async_sessionmaker(engine, expire_on_commit=False)


async def create_tables() -> None:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
