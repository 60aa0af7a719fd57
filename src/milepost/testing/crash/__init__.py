"""Proves that a handler's effects survive a crash: at every statement, once each.

Each run is a process of its own, forked from the test and killed for real, so that nothing in
memory survives a crash either. What happened is read from the database afterwards.
"""

from milepost.testing.crash.everywhere import CrashReport, crash_everywhere
from milepost.testing.crash.stage import Outside

__all__ = ["CrashReport", "Outside", "crash_everywhere"]
