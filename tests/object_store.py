"""An S3 server on loopback, and credentials that nobody may see."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs

ACCESS_KEY, SECRET_KEY = "AKIAMILEPOSTTESTS", "a-secret-that-nobody-may-see"
# As pyarrow takes them.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_EC2_METADATA_DISABLED": "true",
}
BUCKET = "bucket"


@dataclass(slots=True)
class Store:
    """It can be stopped and started again, with what is in it."""

    server: ThreadedMotoServer
    port: int

    def stop(self) -> None:
        self.server.stop()

    def start(self) -> None:
        self.server = ThreadedMotoServer("127.0.0.1", self.port, verbose=False)
        self.server.start()

    @property
    def endpoint(self) -> dict[str, str]:
        """For an address that does not say where the server is."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def address(self, place: str) -> str:
        return f"s3://{place}?endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1"

    def make_bucket(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The credentials are in the environment from then on."""
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        address = f"{self.address(BUCKET)}&allow_bucket_creation=true"
        fs.FileSystem.from_uri(address)[0].create_dir(BUCKET)


@contextmanager
def object_store() -> Iterator[Store]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    store = Store(server, server.get_host_and_port()[1])
    try:
        yield store
    finally:
        store.stop()


def refuse_secrets(text: str) -> None:
    assert SECRET_KEY not in text
    assert ACCESS_KEY not in text
