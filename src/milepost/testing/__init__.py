"""For tests that users write of their own handlers."""
