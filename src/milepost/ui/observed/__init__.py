"""What the dashboard reads, how often, and what it keeps of it."""
