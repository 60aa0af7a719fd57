"""For the tests of users: databases for tests, handlers without a running processor, crashes.

The fixtures are in `milepost_pytest`, which imports this package when one of them is used.
"""

from milepost.testing.crash import CrashReport, Outside, crash_everywhere

__all__ = ["CrashReport", "Outside", "crash_everywhere"]
