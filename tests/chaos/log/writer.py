"""One writer of the torture: appends in random transactions until its stdin ends, or it is killed.

Run as `python -m tests.chaos.log.writer URL WRITER SEED`. What it is about to commit and that the
commit returned goes to stdout, a line each, written at once: whatever happens to the process,
the journal says what it knew. Every message carries the writer and a number of its own.
"""

from __future__ import annotations

import json
import os
import random
import select
import sys
from collections.abc import Callable
from dataclasses import dataclass

from psycopg.conninfo import make_conninfo

from milepost import db
from milepost.db import Connection
from milepost.log import append
from milepost.log.append import COPY_FROM
from milepost.records import Message

APPLICATION_NAME = "milepost-torture-writer"
TOPICS = ("orders", "stock", "default")
MOST_MESSAGES = 200
# One append of this many is a COPY, and still no more than a transaction may hold.
MANY = min(COPY_FROM, MOST_MESSAGES)
# How often: no pause, a short one, a long one; and one message, few, many, as many as may be.
PAUSE_WEIGHTS = (0.5, 0.47, 0.03)
SIZE_WEIGHTS = (0.35, 0.5, 0.1, 0.05)
COLUMNS = "(id, topic, key, type, data, metadata)"


@dataclass(slots=True)
class Writer:
    conn: Connection
    writer: int
    rng: random.Random
    number: int = 0

    def run(self) -> None:
        while not self.pause():
            self.transaction()

    def pause(self) -> bool:
        """Often nothing, mostly short, seldom long enough for many others to overtake. The end
        of stdin ends every pause; answers whether it has come."""
        lengths = (0.0, self.rng.uniform(0, 0.03), self.rng.uniform(0, 0.4))
        (seconds,) = self.rng.choices(lengths, PAUSE_WEIGHTS)
        return bool(select.select([sys.stdin], [], [], seconds)[0])

    def transaction(self) -> None:
        """What is meant to commit is journalled before, that it did after."""
        if self.rng.random() < 0.1:
            self.autocommitted()
            return
        is_kept = self.rng.random() < 0.85
        with self.conn.transaction(force_rollback=not is_kept):
            numbers = [n for size in sizes(self.rng) for n in self.step(size)]
            if is_kept:
                note(f"commit {' '.join(map(str, numbers))}")
        if is_kept:
            note("committed")

    def autocommitted(self) -> None:
        """Without a transaction of the caller's: a statement, or one append of many."""
        messages = self.messages(self.rng.choice([1, 3, MANY]))
        note(f"commit {' '.join(str(m.data['number']) for m in messages)}")
        append(self.conn, *messages)
        note("committed")

    def step(self, size: int) -> list[int]:
        """Some messages, with or without savepoints; answers with the numbers that stay."""
        self.pause()
        way = self.rng.random()
        if way < 0.7:
            return self.appended(size)
        if way < 0.8:
            return self.replaced(size)
        is_rolled_back = way > 0.9
        with self.conn.transaction(force_rollback=is_rolled_back):
            numbers = self.step(size)
        return [] if is_rolled_back else numbers

    def replaced(self, size: int) -> list[int]:
        """A savepoint that is rolled back to and used again: the first append after it must
        take its floor anew. It is left to the commit to release it."""
        self.conn.execute("savepoint again")
        self.appended(self.rng.randint(1, size))
        self.pause()
        self.conn.execute("rollback to savepoint again")
        self.pause()
        return self.appended(size)

    def appended(self, size: int) -> list[int]:
        messages = self.messages(size)
        self.rng.choice(WAYS)(self.conn, messages)
        return [message.data["number"] for message in messages]

    def messages(self, size: int) -> list[Message]:
        first, self.number = self.number, self.number + size
        return [self.message(number) for number in range(first, self.number)]

    def message(self, number: int) -> Message:
        key = self.rng.choice([None, f"key-{self.rng.randrange(64)}"])
        data = {"writer": self.writer, "number": number}
        return Message("Written", data, key=key, topic=self.rng.choice(TOPICS))


def sizes(rng: random.Random) -> list[int]:
    """How many messages each step of a transaction appends: 1 to 200 altogether."""
    totals = (1, rng.randint(2, 12), rng.randint(13, 199), MOST_MESSAGES)
    (total,) = rng.choices(totals, SIZE_WEIGHTS)
    if total >= MANY and rng.random() < 0.7:
        return [MANY]
    found: list[int] = []
    while (left := total - sum(found)) > 0:
        found.append(min(left, rng.choice([1, 2, 5, 40, 120])))
    return found


def plain_insert(conn: Connection, messages: list[Message]) -> None:
    statement = f"insert into milepost.messages {COLUMNS} values (%s, %s, %s, %s, %s, %s)"  # noqa: S608
    with conn.cursor() as cursor:
        cursor.executemany(statement.encode(), map(columns, messages))


def plain_copy(conn: Connection, messages: list[Message]) -> None:
    with conn.cursor().copy(f"copy milepost.messages {COLUMNS} from stdin".encode()) as copy:
        for message in messages:
            copy.write_row(columns(message))


def append_all(conn: Connection, messages: list[Message]) -> None:
    append(conn, *messages)


def columns(message: Message) -> tuple[object, ...]:
    data = json.dumps(message.data)
    return message.id, message.topic, message.key, message.type, data, "{}"


WAYS: list[Callable[[Connection, list[Message]], None]] = [append_all, plain_insert, plain_copy]


def note(line: str) -> None:
    """One write of a whole line: a kill leaves no half of it."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def main(url: str, writer: str, seed: str) -> None:
    # Not a fallback name: the harness finds the sessions of its writers by it.
    with db.connect(make_conninfo(url, application_name=APPLICATION_NAME)) as conn:
        Writer(conn, int(writer), random.Random(int(seed))).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
