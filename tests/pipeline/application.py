"""An application for `milepost pipelines rebuild customers tests.pipeline.application:mp`."""

from __future__ import annotations

from milepost import Milepost, ToLog
from tests.pipeline.rebuilding import customers
from tests.pipeline.running import per_customer

mp = Milepost()
customers(mp)
mp.pipeline("echo", sink=ToLog("echoes"))(per_customer)
