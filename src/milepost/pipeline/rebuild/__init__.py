"""Fill a new version of a table and swap it in."""

from milepost.pipeline.rebuild.rebuild import DEFAULT_MAX_MESSAGES, Rebuild, Rebuilt, refuse
from milepost.pipeline.rebuild.swap import Progress

__all__ = ["DEFAULT_MAX_MESSAGES", "Progress", "Rebuild", "Rebuilt", "refuse"]
