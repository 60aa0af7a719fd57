"""What processors, segments and pipelines have in common on the screen and in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from milepost.cli.output import print_facts, print_json, print_remark
from milepost.words import duration

if TYPE_CHECKING:
    from milepost.pipeline.admin import PipelineStatus
    from milepost.processors.admin import ProcessorStatus
    from milepost.processors.segments.operations import SegmentStatus
    from milepost.records import Position

Status: TypeAlias = "ProcessorStatus | SegmentStatus | PipelineStatus"
# The end of a position after the whole of a transaction, which is shown as `17:*`.
_WHOLE_TRANSACTION = ":9223372036854775807"


def as_document(status: Status) -> dict[str, Any]:
    document = asdict(status)
    del document["transaction_id"]
    if "handled_transaction_id" in document:
        del document["handled_transaction_id"]
        document["handled_position"] = _text(getattr(status, "handled_up_to", None))
    known = {"position": _text(status.checkpoint), "is_recovered": status.is_recovered}
    return document | known


def _text(position: Position | None) -> str | None:
    return None if position is None else str(position)


def print_versions(name: str, found: Sequence[Status], *, as_json: bool) -> None:
    """Everything known about each version of a processor or pipeline."""
    documents = [as_document(status) for status in found]
    if as_json:
        print_json(documents)
        return
    for document in documents:
        typer.echo(f"{name} version {document['version']}")
        for expectation in document.get("expectations") or []:
            document[f"expectation {expectation['name']!r}"] = counted(expectation)
        document.pop("expectations", None)
        print_facts(document, indent="  ")


def counted(expectation: Mapping[str, Any]) -> str:
    """How many rows have passed and violated an expectation of a pipeline."""
    return f"{expectation['passed']:,} passed, {expectation['violated']:,} violated"


def print_error(label: str, status: Status) -> None:
    """The last error, how long ago it was, and whether it is over. `show` has its exact time."""
    if status.last_error is None:
        return
    style = "dim" if status.is_recovered else "red"
    print_remark(f"{label}{_since(status, datetime.now(UTC))}: {status.last_error}", style)


def _since(status: Status, now: datetime) -> str:
    if status.last_error_at is None:
        return ""
    ago = duration((now - status.last_error_at).total_seconds())
    return f", {'recovered, ' if status.is_recovered else ''}{ago} ago"


def shown(position: Position | None) -> str:
    return str(position or "-").replace(_WHOLE_TRANSACTION, ":*")


def progress_cells(status: Status) -> dict[str, str]:
    about = "" if getattr(status, "is_lag_exact", True) else "~"  # an estimate
    return {
        "position": shown(status.checkpoint),
        "lag": f"{about}{status.lag_messages:,}",
        "behind": duration(status.lag_seconds) if status.lag_messages or about else "-",
    }
