"""Segments: one processor over many instances, each segment claimed by one of them at a time."""
