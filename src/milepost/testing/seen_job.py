"""A job as a test sees it, with its JSON decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from datetime import datetime

    from milepost.queue.admin import JobStatus, Status


@dataclass(frozen=True, slots=True)
class SeenJob:
    """`content`, `state` and `result` are decoded; bytes that are not JSON stay bytes."""

    id: int
    channel: str
    status: Status
    content: Any
    state: Any
    result: Any
    run_at: datetime
    priority: int
    failures: int
    unique_key: str | None
    last_error: str | None

    @classmethod
    def of(cls, job: JobStatus) -> SeenJob:
        """As the queue has it."""
        return cls(
            id=job.id,
            channel=job.channel,
            status=job.status,
            content=_decoded(job.content),
            state=_decoded(job.state),
            result=_decoded(job.result),
            run_at=job.run_at,
            priority=job.priority,
            failures=job.failures,
            unique_key=job.unique_key,
            last_error=job.last_error,
        )


def _decoded(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
