"""How long a torture takes, and which random choices it makes."""

from __future__ import annotations

import os
import random
import sys

# For each torture; `make soak` asks for minutes.
SECONDS = float(os.environ.get("MILEPOST_TORTURE_SECONDS", "10"))
TIMEOUT_SECONDS = SECONDS * 2 + 240


def fewest_kills() -> int:
    """However slow the machine."""
    return int(os.environ.get("MILEPOST_TORTURE_KILLS", "2"))


def new_seed() -> int:
    """Printed before anything can fail. MILEPOST_TORTURE_SEED asks for the random choices of an
    earlier run (not for its timing)."""
    seed = int(os.environ.get("MILEPOST_TORTURE_SEED", random.SystemRandom().getrandbits(32)))
    sys.stdout.write(f"MILEPOST_TORTURE_SEED={seed}\n")
    return seed
