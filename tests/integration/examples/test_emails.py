"""Mails of many tenants: each is sent, asked again if the server was slow, or given up."""

from __future__ import annotations

import json
import re

from milepost import Milepost
from tests.integration.examples.running import Place
from tests.waiting import wait_until

MAILS = 50
BAD = [f"user{n}" for n in range(0, MAILS, 10)]
GOOD = [f"user{n}@example.org" for n in range(MAILS) if n % 10]


def test_every_mail_is_sent_or_given_up(place: Place) -> None:
    place.said("milepost migrate")
    assert place.said(f"python examples/emails.py {MAILS}") == f"put {MAILS} mails of 5 tenants\n"
    with place.running("milepost run examples.emails:mp") as printed:
        wait_until(lambda: len(sent(place)) == len(GOOD) and len(dead(place)) == len(BAD))
        wait_until(lambda: "chore: count the mails" in printed())
    # Not by lines: handlers print at the same time.
    assert sorted(re.findall(r"mail to (user\d+@example\.org)", printed())) == sorted(GOOD)
    assert sorted(sent(place)) == sorted(GOOD)
    assert sorted(dead(place)) == BAD
    assert {f"mails.{n}" for n in range(5)} <= set(place.said("milepost channels").split())


def sent(place: Place) -> list[str]:
    """A message in the log for each, in the transaction that completed its job."""
    return [message.data["to"] for message in Milepost(place.url).read(topics=["mails"])]


def dead(place: Place) -> list[str]:
    found = json.loads(place.said("milepost queue dead --json"))
    return [job["content"]["to"] for job in found]
