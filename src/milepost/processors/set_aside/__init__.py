"""What could not be handled: dead letters and parked keys, and how they are retried."""
