"""The command line: each command parses, calls one room, prints."""

__all__ = ["main"]


def main() -> None:
    # Imported here, so that a writer of the demo does not load what it never prints with.
    from milepost.cli.commands import app

    app(prog_name="milepost")
