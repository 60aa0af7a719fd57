"""What the tables beside a pipeline's target are called. Pure."""

from __future__ import annotations

import hashlib
import re


def staging_name(pipeline: str, version: int) -> str:
    """Readable, and within PostgreSQL's 63 bytes whatever the pipeline is called."""
    readable = re.sub(r"[^a-z0-9]+", "_", pipeline.lower())[:32]
    digest = hashlib.sha256(pipeline.encode()).hexdigest()[:8]
    return f"staging_{readable}_{digest}_v{version}"
