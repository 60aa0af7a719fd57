"""What operators did in the dashboard."""

from __future__ import annotations

from milepost.ui.audit import list_audit
from milepost.ui.drawn.page import Page, PageRoutes, Part, View
from milepost.ui.observed.reading import given, given_id, permitted

SECTION = "/audit"
SHOWN = 100


def listing(view: View) -> Page:
    before, subject = given_id(view, "before"), given(view, "subject")
    found = permitted(
        view,
        ("audit", before, subject),
        lambda conn, schema: list_audit(conn, schema, SHOWN + 1, before=before, subject=subject),
    )
    context = {
        "entries": None if found is None else found[:SHOWN],
        "older": found[SHOWN - 1].id if found is not None and len(found) > SHOWN else None,
        "subject": subject,
    }
    return Page("Audit", [Part("audit", "audit/list.html", context)], SECTION)


ROUTES: PageRoutes = [("/audit", listing)]
