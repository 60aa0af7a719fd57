"""Fill a new version of a table and swap it in."""

from milepost.pipeline.rebuild.rebuild import Rebuild, Rebuilt, refuse
from milepost.pipeline.rebuild.swap import Progress

__all__ = ["Progress", "Rebuild", "Rebuilt", "refuse"]
