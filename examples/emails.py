"""Mails of many tenants: each tenant is a channel, so that nobody's newsletter delays the others;
a slow mail server is asked again, a bad address is given up, and every mail sent is a message in
the log, in the transaction that completes its job.

    milepost migrate
    python examples/emails.py 50                  # put 50 mails of five tenants
    milepost run examples.emails:mp               # in another terminal; Ctrl-C ends it
    milepost channels
    milepost queue dead
"""

from __future__ import annotations

import random
import sys
import time
from datetime import timedelta

from milepost import Job, Message, Milepost, Repeat, Retry, TakenJob
from milepost.db import Connection

mp = Milepost()
TENANTS = 5


class BadAddress(Exception):
    """Nothing that trying again could mend."""


@mp.worker(
    "mails.*", concurrency=8, retry={BadAddress: None, TimeoutError: Retry(first_seconds=0.2)}
)
def send_mail(job: TakenJob, tx: Connection) -> None:
    """What is appended through `tx` is there exactly if the job is completed."""
    deliver(job.content["to"])
    mp.append(tx, Message("MailSent", job.content, topic="mails"))


@mp.worker("chores")
def chore(job: TakenJob) -> None:
    print(f"chore: {job.content}")


mp.schedule("report", Repeat(every=timedelta(seconds=2)), Job("chores", "count the mails"))


def deliver(address: str) -> None:
    """A mail server of moods."""
    if "@" not in address:
        raise BadAddress(address)
    time.sleep(0.02)
    if random.random() < 0.2:
        raise TimeoutError("the mail server is slow")
    print(f"mail to {address}")


def put_mails(count: int) -> None:
    for tenant in range(TENANTS):
        mp.set_channel(f"mails.{tenant}", max_concurrency=2)
    with mp.connect() as conn, conn.transaction():
        addresses = [f"user{n}@example.org" if n % 10 else f"user{n}" for n in range(count)]
        mp.put(conn, *(Job(f"mails.{n % TENANTS}", {"to": a}) for n, a in enumerate(addresses)))
    print(f"put {count} mails of {TENANTS} tenants")


if __name__ == "__main__":
    put_mails(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
