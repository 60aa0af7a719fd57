"""`milepost demo`: the main job, small enough to watch, with a proof at its end."""

from milepost.cli.demo.command import command

__all__ = ["command"]
