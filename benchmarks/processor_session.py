"""What a Session costs: one upsert a message through SQLAlchemy, in a processor's transaction,
against the same through the psycopg connection; and against SQLAlchemy without a checkpoint."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
from sqlalchemy import Table, bindparam, create_engine, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.processor import BATCH, UNIT, UPSERT, fill, process, upsert
from benchmarks.rounds import alternate, per_second
from milepost import db
from milepost.log import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.dialects.postgresql import Insert
    from sqlalchemy.ext.asyncio import AsyncSession

    from benchmarks.workbench import Workbench
    from milepost.db import AsyncConnection
    from milepost.records import RecordedMessage

_OWN_ENGINE = "the same, no checkpoint"


class Base(DeclarativeBase):
    pass


class Total(Base):
    __tablename__ = "totals"
    customer: Mapped[str] = mapped_column(primary_key=True)
    total: Mapped[float]


def _adding(target: type[Total] | Table, columns: Any) -> Insert:
    added = insert(target).values(customer=bindparam("customer"), total=bindparam("total"))
    return added.on_conflict_do_update(
        index_elements=[columns.customer], set_={"total": columns.total + added.excluded.total}
    )


_TABLE = Base.metadata.tables["totals"]
_OF_CLASS, _OF_TABLE = _adding(Total, Total), _adding(_TABLE, _TABLE.c)


def measure(bench: Workbench) -> list[Comparison]:
    with bench.database() as url:
        number = fill(url, bench.choose(20_000, 2_000))
        names = (f"session-{n}" for n in count())
        run = partial(process, url, names, number)
        makes = sessionmaker(autoflush=False)
        sides = {
            "psycopg": partial(run, upsert),
            "psycopg, async": partial(run, upsert_async),
            "objects": partial(run, change_objects, session=makes),
            "objects, async": partial(run, change_objects_async, session=makes),
            "list": partial(run, upsert_list, session=makes),
            "table": partial(run, upsert_table, session=makes),
            "class": partial(run, upsert_class, session=makes),
            _OWN_ENGINE: partial(_without_checkpoint, url, number),
        }
        measured = alternate(sides, rounds=bench.choose(7, 2))
    return [_compared(measured, *line) for line in _LINES]


# What is measured, against what, and the target. A statement of the class goes through SQLAlchemy's
# bulk persistence, each time. Its last line is against SQLAlchemy itself: how much of that is ours.
_LINES = (
    ("objects", "objects that are loaded, changed and flushed", "psycopg", AtLeast(0.5)),
    ("objects, async", "the same, async", "psycopg, async", AtLeast(0.5)),
    ("list", "one call with a list of rows", "psycopg", AtLeast(0.5)),
    ("table", "a statement a message, of the table", "psycopg", AtLeast(0.5)),
    ("class", "a statement a message, of the class", "psycopg", AtLeast(0.5)),
    ("class", "a statement a message, of the class", _OWN_ENGINE, AtLeast(0.8)),
)


def _compared(
    measured: dict[str, list[float]], side: str, what: str, against: str, target: AtLeast
) -> Comparison:
    title = f"a Session, batches of {BATCH}: {what}"
    return Comparison(title, against, UNIT, measured[side], measured[against], target)


async def upsert_async(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
    for message in messages:
        await tx.execute(UPSERT, [message.data["customer"], message.data["total"]])


def change_objects(messages: list[RecordedMessage], session: Session) -> None:
    known = session.scalars(_totals_of(messages)).all()
    session.add_all(_changed(messages, known))


async def change_objects_async(messages: list[RecordedMessage], session: AsyncSession) -> None:
    known = (await session.scalars(_totals_of(messages))).all()
    session.add_all(_changed(messages, known))


def _totals_of(messages: list[RecordedMessage]) -> Any:
    return select(Total).where(Total.customer.in_({m.data["customer"] for m in messages}))


def _changed(messages: list[RecordedMessage], known: Sequence[Total]) -> list[Total]:
    totals = {each.customer: each for each in known}
    for message in messages:
        customer = message.data["customer"]
        if (total := totals.get(customer)) is None:
            total = totals[customer] = Total(customer=customer, total=0.0)
        total.total += message.data["total"]
    return list(totals.values())


def upsert_list(messages: list[RecordedMessage], session: Session) -> None:
    session.execute(_OF_CLASS, [_row(message) for message in messages])


def upsert_table(messages: list[RecordedMessage], session: Session) -> None:
    for message in messages:
        session.execute(_OF_TABLE, _row(message))


def upsert_class(messages: list[RecordedMessage], session: Session) -> None:
    for message in messages:
        session.execute(_OF_CLASS, _row(message))


def _row(message: RecordedMessage) -> dict[str, Any]:
    return {"customer": message.data["customer"], "total": message.data["total"]}


def _without_checkpoint(url: str, number: int) -> float:
    """Through an engine of SQLAlchemy's own, in the same batches."""
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url))
    with db.connect(url) as reading:
        reader = Reader(reading, batch_size=BATCH)

        def work() -> None:
            for _ in range(number // BATCH):
                messages = reader.read().messages
                with Session(engine, autoflush=False) as session, session.begin():
                    upsert_class(messages, session)

        measured = per_second(number, work)
    engine.dispose()
    return measured


FIGURE = Figure("processor_session", "Processors through a Session, against psycopg", measure)
