"""Who an instance is, for people who look at what it holds."""

from __future__ import annotations

import os
import socket
from uuid import uuid4


def owner_name() -> str:
    """Host, process, and a part that tells the instances of one process apart."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:6]}"
