"""The name of an instance, as operators see it."""

from __future__ import annotations

import os
import socket
from uuid import uuid4


def owner_name() -> str:
    """Host, process id, and a part that distinguishes the instances of one process."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:6]}"
