"""The schedule that ticks before, during and after the upgrade: `milepost run scheduling:mp`.

Works with the release before, too: only what it has is used here.
"""

from __future__ import annotations

from datetime import timedelta

from milepost import Job, Milepost, Repeat

mp = Milepost()
mp.schedule("often", Repeat(timedelta(seconds=0.5)), Job("ticks"))
