"""The queue: its channels with their limits, and its jobs by state and search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost.queue import admin
from milepost.ui.drawn import trends
from milepost.ui.drawn.page import NotFound, Page, PageRoutes, Part, View
from milepost.ui.observed import snapshot
from milepost.ui.observed.reading import as_id, given, given_id, permitted
from milepost.ui.pages.overview import channel_state

if TYPE_CHECKING:
    from markupsafe import Markup

    from milepost.db import Connection
    from milepost.observe import QueueGauges
    from milepost.queue.admin import ChannelStatus, JobStatus, Status
    from milepost.ui.drawn.trends import Trend

SECTION = "/queue"
SHOWN = 50
STATUSES: tuple[Status, ...] = (
    "ready",
    "scheduled",
    "waiting",
    "running",
    "dead",
    "done",
    "cancelled",
)


def listing(view: View) -> Page:
    gauges = snapshot.take(view.board).queue
    found = snapshot.channels(view.board)
    rows = [
        {"status": each, "depth": _depth_line(view, each.name), "state": _state(each)}
        for each in found
    ]
    parts = [
        Part("summary", "queue/summary.html", {"summary": gauges}),
        Part("channels", "queue/channels.html", {"rows": rows, "more": _others(gauges)}),
    ]
    return Page("Queue", parts, SECTION)


def _others(gauges: QueueGauges | None) -> int:
    """Channels that are not listed."""
    return 0 if gauges is None else max(gauges.channel_count - snapshot.LISTED_CHANNELS, 0)


def channel(view: View) -> Page:
    name = view.path["channel"]
    if "\0" in name:
        raise NotFound("No channel has such a name.")
    status = snapshot.channel(view.board, name)
    state = None if status is None else _state(status)
    context = {"name": name, "status": status, "state": state, **_charts(view, name)}
    parts = [
        Part("channel", "queue/channel.html", context),
        Part("limits", "queue/limits.html", {"name": name, "values": _limits(status)}),
    ]
    if not name.endswith("*"):  # a family has no jobs of its own
        parts.append(_jobs_part(view, Filter.of(view, name), f"/queue/{name}"))
    return Page(name, parts, SECTION)


def jobs(view: View) -> Page:
    chosen = Filter.of(view, given(view, "channel"))
    return Page("Jobs", [_jobs_part(view, chosen, "/jobs")], SECTION)


def job(view: View) -> Page:
    status = _found(view)
    context = {"job": status, "has_payload": view.query.get("payload") == "1"}
    return Page(f"Job {status.id}", [Part("job", "queue/job.html", context)], SECTION)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs are shown, as the query says. `after`: the id behind which this page begins."""

    channel: str | None
    status: Status | None
    search: str | None
    after: int | None

    @classmethod
    def of(cls, view: View, channel: str | None) -> Filter:
        status = next((each for each in STATUSES if each == view.query.get("status")), None)
        return cls(channel, status, given(view, "search"), given_id(view, "after"))

    def read(self, conn: Connection, schema: str) -> list[JobStatus]:
        """One more than is shown: whether there are more."""
        ids = admin.find_ids(
            conn,
            schema,
            channel=self.channel,
            status=self.status,
            search=self.search,
            after=self.after,
            max_count=SHOWN + 1,
        )
        return admin.list_jobs(conn, schema, ids=ids, max_count=SHOWN + 1) if ids else []


def _jobs_part(view: View, chosen: Filter, path: str) -> Part:
    found = permitted(view, chosen, chosen.read)
    context = {
        "jobs": None if found is None else found[:SHOWN],
        "more_after": found[SHOWN - 1].id if found is not None and len(found) > SHOWN else None,
        "filter": chosen,
        "path": path,
        "statuses": STATUSES,
    }
    return Part("jobs", "queue/jobs.html", context)


def _found(view: View) -> JobStatus:
    id_ = as_id(view.path["id"])
    found = [] if id_ is None else view.board.look(
        ("job", id_), lambda conn, schema: admin.list_jobs(conn, schema, id_=id_)
    )  # fmt: skip
    if not found:
        raise NotFound(
            f"There is no job {view.path['id']}: it was completed and not kept, or deleted."
        )
    return found[0]


def _state(status: ChannelStatus) -> str:
    return channel_state(status)


def _depth_line(view: View, name: str) -> Markup:
    return trends.line(view.history, snapshot.series("channel", name, "depth"), "Ready and running")


def _charts(view: View, name: str) -> dict[str, Trend]:
    depth, rate = (snapshot.series("channel", name, what) for what in ("depth", "rate"))
    return {
        "depth": trends.trend(view, depth, "Ready and running jobs"),
        "rate": trends.trend(view, rate, "Jobs a second"),
    }


def _limits(status: ChannelStatus | None) -> Mapping[str, Any]:
    """What the form is filled in with: the channel's own limits, not those of its family."""
    if status is None or status.family is not None:
        return {"family": None if status is None else status.family}
    return {
        "family": None,
        "max_concurrency": status.max_concurrency,
        "max_concurrency_total": status.max_concurrency_total,
        "release_seconds": status.release_seconds,
        "rate": status.rate_count,
        "per_seconds": status.rate_seconds,
        "burst": status.rate_burst,
        "max_size": status.max_size,
    }


ROUTES: PageRoutes = [
    ("/queue", listing),
    ("/queue/{channel:path}", channel),
    ("/jobs", jobs),
    ("/jobs/{id}", job),
]
