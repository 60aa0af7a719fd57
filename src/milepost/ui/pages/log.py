"""The log: its edges, its tail, and one message."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from milepost.errors import InvalidPosition
from milepost.records import Position
from milepost.ui.drawn.log_drawing import draw_log
from milepost.ui.drawn.page import NotFound, Page, PageRoutes, Part, View
from milepost.ui.observed import log_reads, snapshot
from milepost.ui.observed.board import HALF_SECONDS
from milepost.ui.observed.log_reads import TailFilter
from milepost.ui.observed.reading import given

if TYPE_CHECKING:
    from milepost.log.diagnosis import Holder

LONGEST_SHOWN = 200_000  # characters of a payload


def tail(view: View) -> Page:
    wanted = TailFilter(*(given(view, name) for name in ("topic", "type", "key")))
    edges = edges_of(view)
    read = partial(log_reads.read_tail, wanted=wanted)
    messages = view.board.look(("log-tail", wanted), read, HALF_SECONDS)
    return Page(
        "Log",
        [
            Part("edges", "log/edges.html", {"edges": edges, "drawing": draw_log(edges)}),
            Part("filter", "log/filter.html", {"wanted": wanted}),
            Part(
                "tail",
                "log/tail.html",
                {
                    "messages": messages,
                    "horizon": edges.horizon,
                    "wanted": wanted,
                    "look_through": log_reads.LOOK_THROUGH,
                },
            ),
        ],
        "/log",
    )


def edges_of(view: View) -> log_reads.Edges:
    found = snapshot.take(view.board)
    is_held = found.log is not None and found.log.holders > 0
    return log_reads.edges_of(found, holders(view) if is_held else [])


def holders(view: View) -> list[Holder]:
    return view.board.look("holders", log_reads.read_holders)


def message(view: View) -> Page:
    place = _place(view.path["place"])
    with_data = view.query.get("payload") == "1"
    found = view.board.look(
        ("message", place, with_data),
        partial(log_reads.read_message, place=place, with_data=with_data),
    )
    if found is None:
        raise NotFound(f"The log has no message at position {place}.")
    passed = view.board.look(("passed", place), partial(log_reads.read_passed, message=found))
    return Page(
        f"Message {place}",
        [
            Part("message", "log/message.html", {"message": found, "longest": LONGEST_SHOWN}),
            Part("passed", "log/passed.html", {"passed": passed}),
        ],
        "/log",
    )


def _place(text: str) -> Position:
    try:
        return Position.parse(text)
    except InvalidPosition as error:
        raise NotFound(str(error)) from error


ROUTES: PageRoutes = [("/log", tail), ("/log/{place}", message)]
