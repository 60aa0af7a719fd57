"""An application that cannot be imported."""

from __future__ import annotations

mp = 1 // 0
