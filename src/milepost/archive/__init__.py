"""The old part of the log: which messages are kept, and what may be removed."""

from milepost.archive.retention import (
    Gate,
    Policy,
    Removal,
    RetentionState,
    remove_old,
    retention_state,
    set_policy,
    unset_policy,
)

__all__ = [
    "Gate",
    "Policy",
    "Removal",
    "RetentionState",
    "remove_old",
    "retention_state",
    "set_policy",
    "unset_policy",
]
