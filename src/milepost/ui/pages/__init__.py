"""All pages of the dashboard, and the entries of its navigation."""

from milepost.ui.drawn.page import PageRoutes
from milepost.ui.pages import (
    audit,
    dead_letters,
    log,
    overview,
    pipelines,
    processors,
    queue,
    schedules,
)

SECTIONS = {
    "/": "Overview",
    "/log": "Log",
    "/processors": "Processors",
    "/dead-letters": "Dead letters",
    "/pipelines": "Pipelines",
    "/queue": "Queue",
    "/schedules": "Schedules",
    "/audit": "Audit",
}
ROUTES: PageRoutes = [
    *overview.ROUTES,
    *log.ROUTES,
    *processors.ROUTES,
    *dead_letters.ROUTES,
    *pipelines.ROUTES,
    *queue.ROUTES,
    *schedules.ROUTES,
    *audit.ROUTES,
]

__all__ = ["ROUTES", "SECTIONS"]
