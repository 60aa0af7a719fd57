"""What happens to orders after they were placed: effects exactly once, through Sessions."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from examples.fastapi.models import Order, SessionLocal, Spending, engine
from milepost import Job, Message, Milepost, RecordedMessage, TakenJob

mp = Milepost(engine=engine)


def placed(order: Order) -> tuple[Message, Job]:
    """What the endpoint appends, and what it puts."""
    content = {"order": order.number, "total": order.total}
    message = Message("OrderPlaced", content, key=order.customer, topic="shop")
    return message, Job("confirmations", content)


@mp.processor("spending", topics=["shop"], types=["OrderPlaced"], session=SessionLocal)
async def add_up(messages: list[RecordedMessage], session: AsyncSession) -> None:
    """The sums and the checkpoint commit together. Milepost flushes and commits: no commit here."""
    for message in messages:
        spending = await session.get(Spending, message.key)
        if spending is None:
            spending = Spending(customer=message.key, total=0)
            session.add(spending)
        spending.total += message.data["total"]


@mp.worker("confirmations", session=SessionLocal)
async def confirm(job: TakenJob, session: AsyncSession) -> None:
    """The order is confirmed, the message says so and the job is done, or none of the three."""
    order = await session.get_one(Order, job.content["order"])
    order.is_confirmed = True
    await mp.append(session, Message("OrderConfirmed", job.content, key=order.customer))
