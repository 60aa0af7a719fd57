"""What the driver and those who kill it agree on."""

from pathlib import Path

ROOT = Path(__file__).parents[3]
EACH, SUMS = "each", "sums"
