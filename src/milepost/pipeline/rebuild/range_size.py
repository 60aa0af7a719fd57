"""How many messages a range of a rebuild has. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

# What a range gives is staged, and merged in one transaction: so many rows, if each message gives
# one.
DEFAULT_MAX_MESSAGES = 500_000
# If an upsert only adds, the rows of a key are added up before they are staged: a larger range
# gives hardly more rows, and each range merges all keys again. Memory does not limit it: messages
# pass through a task, which keeps two chunks of 32 MB at most. What limits it is the work that is
# lost if the rebuild is killed, some seconds of all cores. The first ranges are smaller on many
# cores: only then it is known whether keys repeat.
SUMMED_MESSAGES = 2_000_000
SUMMED_PER_CORE = 1_000_000
FEW_ROWS = DEFAULT_MAX_MESSAGES // 4  # two ranges may be planned before the first is merged


@dataclass(slots=True)
class RangeSize:
    """`given` by the user: it stays. Otherwise it follows how many rows the sums were."""

    given: int | None
    cores: int
    is_summed: bool
    messages: int = field(init=False)  # of the next range

    def __post_init__(self) -> None:
        summed = min(SUMMED_MESSAGES, self._most)
        self.messages = self.given or (summed if self.is_summed else DEFAULT_MAX_MESSAGES)

    def saw(self, copied: int) -> None:
        """A range has staged so many rows."""
        if self.given is not None or not self.is_summed:
            return
        if copied > DEFAULT_MAX_MESSAGES:
            self.messages = DEFAULT_MAX_MESSAGES
        elif copied <= FEW_ROWS:
            self.messages = min(2 * self.messages, self._most)

    @property
    def _most(self) -> int:
        return self.cores * SUMMED_PER_CORE
