"""Everything that runs for a long time: connections, sessions, supervision, background duties.

A session knows nothing of reconnecting, and the supervisor knows nothing of messages.
"""

from milepost.runtime.bell import Bell
from milepost.runtime.connections import (
    DEFAULT_MAX_CONNECTIONS,
    AnyLease,
    AsyncLease,
    Connections,
    Lease,
    OnNotice,
)
from milepost.runtime.duty import Duty
from milepost.runtime.event_loop import EventLoop
from milepost.runtime.group import RESTART, Group, Member, stopping_on_signals
from milepost.runtime.lost_server import (
    Backoff,
    Patience,
    ServerLost,
    is_server_away,
    is_server_lost,
    is_transient,
    naming_loss,
)
from milepost.runtime.runtime import Runtime, Timing
from milepost.runtime.session import Session, SessionOver, Stopping, Until, refuse_unknown_end
from milepost.runtime.status import Repeats, State, Status
from milepost.runtime.stop import Stop, waking
from milepost.runtime.supervise import Supervisor
from milepost.runtime.waiting import holds_within
from milepost.runtime.watcher import Watch

__all__ = [
    "DEFAULT_MAX_CONNECTIONS",
    "RESTART",
    "AnyLease",
    "AsyncLease",
    "Backoff",
    "Bell",
    "Connections",
    "Duty",
    "EventLoop",
    "Group",
    "Lease",
    "Member",
    "OnNotice",
    "Patience",
    "Repeats",
    "Runtime",
    "ServerLost",
    "Session",
    "SessionOver",
    "State",
    "Status",
    "Stop",
    "Stopping",
    "Supervisor",
    "Timing",
    "Until",
    "Watch",
    "holds_within",
    "is_server_away",
    "is_server_lost",
    "is_transient",
    "naming_loss",
    "refuse_unknown_end",
    "stopping_on_signals",
    "waking",
]
