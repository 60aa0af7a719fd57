"""What runs before, during and after the upgrade: `milepost run application:mp`."""

from __future__ import annotations

from typing import Any

from milepost import Milepost, RecordedMessage, TakenJob

mp = Milepost()


def keep(kind: str, numbers: list[int], tx: Any) -> None:
    for n in numbers:
        tx.execute("insert into effects (kind, n) values (%s, %s)", [kind, n])


@mp.processor("plain", batch_size=20)
def plain(messages: list[RecordedMessage], tx: Any) -> None:
    keep("plain", [message.data["n"] for message in messages], tx)


@mp.processor("shared", segments=4, batch_size=20)
def shared(messages: list[RecordedMessage], tx: Any) -> None:
    keep("shared", [message.data["n"] for message in messages], tx)


@mp.processor("parking", on_failure="park", batch_size=20)
def parking(messages: list[RecordedMessage], tx: Any) -> None:
    keep("parking", [message.data["n"] for message in messages], tx)


@mp.worker("emails")
def send(job: TakenJob, tx: Any) -> None:
    keep("job", [job.content], tx)
