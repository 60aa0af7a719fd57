"""The API. `milepost run examples.fastapi.app:mp` runs what works on its messages and jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from examples.fastapi.consumers import mp, placed
from examples.fastapi.models import Order, SessionLocal, Spending, create_tables, engine

__all__ = ["app", "mp"]


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    await create_tables()
    yield
    await engine.dispose()


async def open_session() -> AsyncIterator[AsyncSession]:
    async with SessionLocal() as session:
        yield session


app = FastAPI(lifespan=lifespan)
OfRequest = Annotated[AsyncSession, Depends(open_session)]


class NewOrder(BaseModel):
    number: int
    customer: str
    total: int


class OrderOut(NewOrder):
    model_config = ConfigDict(from_attributes=True)
    is_confirmed: bool


class SpendingOut(BaseModel):
    model_config = ConfigDict(from_attributes=True)
    customer: str
    total: int


@app.post("/orders", status_code=201, response_model=OrderOut)
async def place_order(new: NewOrder, session: OfRequest) -> Order:
    """The order, its message and its job commit together. A number that is taken is found when the
    order is flushed, after the message was appended: then that is undone too."""
    order = Order(**new.model_dump(), is_confirmed=False)
    message, job = placed(order)
    try:
        async with session.begin():
            await mp.append(session, message)
            await mp.put(session, job)
            session.add(order)
    except IntegrityError as error:
        raise HTTPException(409, f"There is an order {new.number} already.") from error
    return order


@app.get("/orders/{number}", response_model=OrderOut)
async def show_order(number: int, session: OfRequest) -> Order:
    if (order := await session.get(Order, number)) is None:
        raise HTTPException(404, f"There is no order {number}.")
    return order


@app.get("/customers/{customer}", response_model=SpendingOut)
async def show_customer(customer: str, session: OfRequest) -> Spending:
    found = await session.get(Spending, customer)
    return found or Spending(customer=customer, total=0)
