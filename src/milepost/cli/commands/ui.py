"""`milepost ui`: serve the dashboard."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Annotated

import typer

from milepost.app import Milepost
from milepost.cli.listen_address import listen_address
from milepost.cli.output import say
from milepost.errors import CannotListen

if TYPE_CHECKING:
    import uvicorn

    from milepost.ui import Dashboard

TOKEN = "MILEPOST_UI_TOKEN"  # noqa: S105 - the name of a variable


def command(
    mp: Milepost,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to listen. Port 0: any that is free.")
    ] = "127.0.0.1:8000",
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Show everything, change nothing.")
    ] = False,
    app: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            envvar="MILEPOST_APP",
            help="The application, as in shop:mp: its pipelines can be rebuilt from their pages.",
        ),
    ] = None,
) -> None:
    """Serve the dashboard: health, log, processors, pipelines and the queue in the browser.

    On a loopback address it has no login. On any other it asks for the token in MILEPOST_UI_TOKEN,
    and is read-only if there is none.
    """
    host, port = listen_address(listen)
    token = os.environ.get(TOKEN) or None
    made = mp.dashboard(read_only=read_only, token=token, listens_on=host, app=app)
    made.prepare()  # a wrong URL or schema is an error here, not on the first page
    if made.access.is_read_only and not read_only:
        say(
            f"{TOKEN} is not set, and others can reach {host}: the dashboard is read-only, and "
            f"everybody who reaches it sees it. To log in, set {TOKEN}=$(openssl rand -hex 16)"
        )
    serve(made, host, port)


def serve(dashboard: Dashboard, host: str, port: int) -> None:
    """Until SIGTERM or Ctrl-C. Open streams end with it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        dashboard.close()
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise CannotListen(host, port, reason, "--listen") from error
    try:
        _server(dashboard).run([listening])
    except KeyboardInterrupt:  # uvicorn repeats the signal after it has stopped
        pass
    finally:
        dashboard.close()


def _server(dashboard: Dashboard) -> uvicorn.Server:
    import uvicorn

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """uvicorn waits for each answer to end, and an event stream does not end by itself."""
            dashboard.broadcast.close()
            await super().shutdown(sockets)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for each in self.servers if self.started else []:
                for listening in each.sockets:
                    say(f"milepost ui on {_url(*listening.getsockname()[:2])} (Ctrl-C ends it)")

    config = uvicorn.Config(
        dashboard, log_level="warning", lifespan="off", timeout_graceful_shutdown=5
    )
    return Server(config)


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
