"""Processors: who runs them, how their work is divided, and what they gave up on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.checkpoints import CheckpointKey
from milepost.processors.admin import list_instances
from milepost.processors.segments.operations import list_segments
from milepost.ui.drawn import charts, trends
from milepost.ui.drawn.page import NotFound, Page, PageRoutes, Part, View
from milepost.ui.observed import snapshot
from milepost.ui.observed.reading import given_id
from milepost.ui.pages.dead_letters import letters_part

if TYPE_CHECKING:
    from markupsafe import Markup

    from milepost.processors.admin import InstanceStatus, ProcessorStatus
    from milepost.processors.segments.operations import SegmentStatus
    from milepost.ui.drawn.trends import Trend

SECTION = "/processors"
COUNT_UP_TO = 2_000  # messages that are looked at for the lag of segments
_BAR_WIDTH = 180


def listing(view: View) -> Page:
    found = snapshot.processors(view.board)
    rows = [{"status": each, "lag": _lag_line(view, each.name)} for each in found]
    return Page("Processors", [Part("processors", "processors/list.html", {"rows": rows})], SECTION)


def one(view: View) -> Page:
    status, versions = _found(view)
    key = CheckpointKey(status.name, status.version)
    context = {"status": status, "versions": versions, "lag": _lag_chart(view, status.name)}
    parts = [
        Part("state", "processors/state.html", context),
        Part("segments", "processors/segments.html", _segments(view, key, status)),
        *([letters_part(view, status.name)] if status.dead_letters else []),
        Part(
            "operate",
            "processors/operate.html",
            {"status": status, "is_cut": bool(status.segments)},
        ),
    ]
    return Page(_title(status), parts, SECTION)


def _found(view: View) -> tuple[ProcessorStatus, list[int]]:
    """The version that the query names, else the newest."""
    name, wanted = view.path["name"], given_id(view, "version")
    found = {each.version: each for each in snapshot.processors(view.board) if each.name == name}
    if not found or (wanted is not None and wanted not in found):
        raise NotFound(f"No processor {name!r} has run on this log, or not in this version.")
    return found[max(found) if wanted is None else wanted], sorted(found)


def _title(status: ProcessorStatus) -> str:
    return status.name if status.version == 1 else f"{status.name} version {status.version}"


def _lag_line(view: View, name: str) -> Markup:
    return trends.line(view.history, snapshot.series("processor", name, "lag"), "Messages behind")


def _lag_chart(view: View, name: str) -> Trend:
    return trends.trend(view, snapshot.series("processor", name, "lag"), "Messages behind")


def _segments(view: View, key: CheckpointKey, status: ProcessorStatus) -> dict[str, Any]:
    if status.segments is None:
        return {"status": status, "segments": [], "instances": [], "whole": None, "behind": False}
    segments = view.board.look(
        ("segments", key), lambda conn, schema: list_segments(conn, schema, key, COUNT_UP_TO)
    )
    instances = view.board.look(
        ("instances", key), lambda conn, schema: list_instances(conn, schema, key)
    )
    return {
        "status": status,
        "instances": instances,
        "whole": _keys_bar(segments, instances),
        "behind": any(segment.lag_messages for segment in segments),
        "segments": [{"of": each, "bar": bar} for each, bar in _lag_bars(segments)],
    }


def _keys_bar(segments: list[SegmentStatus], instances: list[InstanceStatus]) -> Markup:
    """Which share of the keys each segment has, in the colour of its owner."""
    owners = [instance.owner for instance in instances]
    parts = [
        (
            f"segment {segment.id}, {segment.owner or 'not claimed'}",
            1 / (segment.mask + 1),
            _colour(segment.owner, owners),
        )
        for segment in sorted(segments, key=lambda each: each.owner or "")
    ]
    return charts.share_bar(parts, "The segments, each as wide as its share of the keys")


def _colour(owner: str | None, owners: list[str]) -> str:
    if owner is None:
        return "fill-line"
    return f"s{owners.index(owner) % charts.COLOURS}" if owner in owners else "fill-warn"


def _lag_bars(segments: list[SegmentStatus]) -> list[tuple[SegmentStatus, Markup]]:
    most = max((segment.lag_messages for segment in segments), default=0) or 1
    return [(segment, _lag_bar(segment, most)) for segment in segments]


def _lag_bar(segment: SegmentStatus, most: int) -> Markup:
    words = f"{segment.lag_messages:,} messages behind"
    share = segment.lag_messages / most
    parts = [(words, share, "fill-accent"), (words, 1 - share, "fill-line")]
    return charts.share_bar(parts, words, width=_BAR_WIDTH, height=10)


ROUTES: PageRoutes = [("/processors", listing), ("/processors/{name:path}", one)]
