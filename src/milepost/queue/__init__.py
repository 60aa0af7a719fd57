"""The queue: durable jobs in channels, served in rotation and limited over the whole fleet."""

from milepost.queue.channels import (
    Policy,
    Rate,
    pause_channel,
    policies,
    set_channel,
    unset_channel,
)
from milepost.queue.definition import Options, WorkerOptions
from milepost.queue.handlers.answers import Failure
from milepost.queue.handlers.around import covers
from milepost.queue.handlers.call import SUPPLIED
from milepost.queue.outcome import Cancel, Defer, Yield
from milepost.queue.put import put, put_group
from milepost.queue.registry import Registry
from milepost.queue.results import DEFAULT_TIMEOUT, Handle
from milepost.queue.schedules import Cron, Repeat, Schedule, Scheduler
from milepost.queue.tasks.task import Task, TaskMaker
from milepost.queue.upkeep import Upkeep, set_upkeep
from milepost.queue.worker.take import Taker
from milepost.queue.worker.worker import Worker, check_workers

__all__ = [
    "DEFAULT_TIMEOUT",
    "SUPPLIED",
    "Cancel",
    "Cron",
    "Defer",
    "Failure",
    "Handle",
    "Options",
    "Policy",
    "Rate",
    "Registry",
    "Repeat",
    "Schedule",
    "Scheduler",
    "Taker",
    "Task",
    "TaskMaker",
    "Upkeep",
    "Worker",
    "WorkerOptions",
    "Yield",
    "check_workers",
    "covers",
    "pause_channel",
    "policies",
    "put",
    "put_group",
    "set_channel",
    "set_upkeep",
    "unset_channel",
]
