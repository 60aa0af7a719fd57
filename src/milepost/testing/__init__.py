"""For the tests of users: databases for tests, handlers without a running processor, crashes.

The fixtures are in `milepost_pytest`, which imports this package when one of them is used.
"""

from milepost.testing.clock import Clock
from milepost.testing.crash import CrashReport, Outside, crash_everywhere
from milepost.testing.effects import Effects
from milepost.testing.given import Given, Outcome
from milepost.testing.seen_job import SeenJob
from milepost.testing.under_test import MilepostUnderTest

__all__ = [
    "Clock",
    "CrashReport",
    "Effects",
    "Given",
    "MilepostUnderTest",
    "Outcome",
    "Outside",
    "SeenJob",
    "crash_everywhere",
]
