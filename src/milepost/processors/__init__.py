"""Processors: named, versioned consumers of the log, with effects exactly once."""

from milepost.processors.by_type import on
from milepost.processors.definition import Definition, Options, ProcessorOptions, ResetHandler
from milepost.processors.deliver.transaction import Conflict, handler_calls
from milepost.processors.listeners import SegmentListener
from milepost.processors.processor import NewProcessor, Processor
from milepost.processors.progress import Follower, is_past, standings
from milepost.processors.runner import Runner
from milepost.processors.segments.claims import Claim, Claims, unclaimed
from milepost.processors.segments.pool import ThreadLeases, thread_leases
from milepost.processors.segments.work import SegmentWork, Surroundings
from milepost.processors.self_checkpointing.api import LATEST, Checkpointing, Trigger
from milepost.processors.self_checkpointing.fenced_upsert import FencedUpsert
from milepost.processors.self_checkpointing.file_store import FileStore
from milepost.processors.self_checkpointing.snapshot import Snapshot
from milepost.processors.session import ProcessorSession
from milepost.processors.set_aside.dead_letters import put as put_letter
from milepost.processors.standby import Standby
from milepost.processors.status import ProcessorStatus
from milepost.processors.turn import Turns

__all__ = [
    "LATEST",
    "Checkpointing",
    "Claim",
    "Claims",
    "Conflict",
    "Definition",
    "FencedUpsert",
    "FileStore",
    "Follower",
    "NewProcessor",
    "Options",
    "Processor",
    "ProcessorOptions",
    "ProcessorSession",
    "ProcessorStatus",
    "ResetHandler",
    "Runner",
    "SegmentListener",
    "SegmentWork",
    "Snapshot",
    "Standby",
    "Surroundings",
    "ThreadLeases",
    "Trigger",
    "Turns",
    "handler_calls",
    "is_past",
    "on",
    "put_letter",
    "standings",
    "thread_leases",
    "unclaimed",
]
