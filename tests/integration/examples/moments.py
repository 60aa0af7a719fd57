"""When examples/balances.py is frozen (freezing.py), named for the tests. Apart from it, because
importing the example starts a server where no database is named."""

from __future__ import annotations

BEFORE_HANDLING = "before-handling"
BEFORE_SAVING = "before-saving"
WHILE_SAVING = "while-saving"
MOMENTS = (BEFORE_HANDLING, BEFORE_SAVING, WHILE_SAVING)
WENT_ON = "went-on"  # the file that it leaves when it goes on
