"""Dead letters and parked keys: the messages that processors and pipelines gave up on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.processors.set_aside.dead_letters import dead_letter, list_dead_letters
from milepost.ui.drawn.page import NotFound, Page, PageRoutes, Part, View
from milepost.ui.observed.reading import as_id, given, permitted

if TYPE_CHECKING:
    from milepost.processors.set_aside.dead_letters import DeadLetter

SECTION = "/dead-letters"
SHOWN = 100


def listing(view: View) -> Page:
    processor = given(view, "processor")
    return Page("Dead letters", [letters_part(view, processor, is_page=True)], SECTION)


def letters_part(view: View, processor: str | None, *, is_page: bool = False) -> Part:
    """The letters of a processor or pipeline, or of all, of the key that the query names."""
    key, search = given(view, "key"), given(view, "search")
    found = permitted(
        view,
        ("dead letters", processor, key, search),
        lambda conn, schema: list_dead_letters(
            conn, schema, processor, SHOWN + 1, key, search=search
        ),
    )
    context = {
        "letters": None if found is None else found[:SHOWN],
        "has_more": found is not None and len(found) > SHOWN,
        "shown": SHOWN,
        "processor": processor,
        "key": key,
        "search": search,
        "is_page": is_page,
    }
    return Part("dead-letters", "dead_letters/list.html", context)


def one(view: View) -> Page:
    letter = _found(view)
    context = {"letter": letter, "has_payload": view.query.get("payload") == "1"}
    title = f"Dead letter {letter.id}"
    return Page(title, [Part("dead-letter", "dead_letters/one.html", context)], SECTION)


def _found(view: View) -> DeadLetter:
    id_ = as_id(view.path["id"])
    found = None if id_ is None else view.board.look(
        ("dead letter", id_), lambda conn, schema: dead_letter(conn, schema, id_)
    )  # fmt: skip
    if found is None:
        raise NotFound(
            f"There is no dead letter {view.path['id']}: it was retried with success, or dropped."
        )
    return found


ROUTES: PageRoutes = [("/dead-letters", listing), ("/dead-letters/{id}", one)]
