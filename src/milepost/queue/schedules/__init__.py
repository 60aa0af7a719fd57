"""Schedules: rows that say what is put, and when. Every tick is put once, whichever scheduler runs.

A tick is one statement: it puts the job and moves the schedule to its next tick, if no other
scheduler has done so (sql/functions/tick_schedule.sql). Nobody holds a schedule between two ticks,
so there is nothing to take over from a scheduler that is gone. All times are the server's.
"""

from milepost.queue.schedules.schedule import Schedule, register
from milepost.queue.schedules.scheduler import Scheduler
from milepost.queue.schedules.times import Cron, Repeat, Times

__all__ = ["Cron", "Repeat", "Schedule", "Scheduler", "Times", "register"]
