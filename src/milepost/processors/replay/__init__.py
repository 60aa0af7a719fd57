"""Messages that are handled again: replays and resets."""
