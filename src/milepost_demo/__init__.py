"""`milepost demo`: the main features in a short run, with a check of the results."""

from milepost_demo.command import command

__all__ = ["command"]
