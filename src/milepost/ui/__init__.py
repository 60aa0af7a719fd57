"""The dashboard, an ASGI application: pages that the server renders, kept current by events."""

from milepost.errors import NoDashboard

try:
    from milepost.ui.app import Dashboard, dashboard
    from milepost.ui.rebuilds import Rebuilds
except ModuleNotFoundError as missing:
    raise NoDashboard(missing.name) from missing

__all__ = ["Dashboard", "Rebuilds", "dashboard"]
