"""The queue: durable jobs in channels, served in rotation and limited over the whole fleet."""

from milepost.queue.channels import Policy, policies, set_channel
from milepost.queue.definition import Definition, Options, WorkerOptions
from milepost.queue.outcome import Cancel, Defer, Yield
from milepost.queue.put import put
from milepost.queue.schedules import Cron, Repeat, Schedule, Scheduler
from milepost.queue.take import Taker
from milepost.queue.worker import Worker

__all__ = [
    "Cancel",
    "Cron",
    "Defer",
    "Definition",
    "Options",
    "Policy",
    "Repeat",
    "Schedule",
    "Scheduler",
    "Taker",
    "Worker",
    "WorkerOptions",
    "Yield",
    "policies",
    "put",
    "set_channel",
]
