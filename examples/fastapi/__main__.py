"""`python -m examples.fastapi --port 8000`: serve until Ctrl-C. Port 0 is any that is free."""

from __future__ import annotations

import argparse
from contextlib import suppress

import uvicorn

from examples.fastapi.app import app


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.fastapi")
    parser.add_argument("--port", type=int, default=8000)
    config = uvicorn.Config(app, port=parser.parse_args().port, log_level="warning")
    with config.bind_socket() as socket:
        socket.listen()  # whoever connects from here on waits until it serves
        host, port = socket.getsockname()
        print(f"serving http://{host}:{port}", flush=True)
        with suppress(KeyboardInterrupt):  # raised again after the shutdown
            uvicorn.Server(config).run(sockets=[socket])


if __name__ == "__main__":
    main()
