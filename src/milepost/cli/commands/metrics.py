"""`milepost metrics`: every gauge, once, or for Prometheus over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any

import typer

from milepost.app import Milepost
from milepost.cli import options
from milepost.cli.listen_address import listen_address
from milepost.cli.logs import LogFormat, set_up_logging
from milepost.cli.output import print_json, say
from milepost.errors import CannotListen
from milepost.observe import look

# What names an item of a list.
_NAMES = ("name", "processor", "version")


def command(
    mp: Milepost,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve /metrics for Prometheus until Ctrl-C, such as 127.0.0.1:9187.",
        ),
    ] = None,
    log_format: Annotated[
        LogFormat,
        typer.Option(envvar="MILEPOST_LOG_FORMAT", help="json: each log line is a JSON object."),
    ] = "text",
    as_json: options.AsJson = False,
) -> None:
    """Show every gauge of the log, processors, pipelines, the queue and the archive, or serve them
    for Prometheus. No payload is read."""
    if listen is not None:
        if as_json:
            raise typer.BadParameter("Pass --listen or --json, not both.")
        set_up_logging("info", log_format)
        _serve(mp, *listen_address(listen))
        return
    with mp.connect() as conn:
        document = look(conn, mp.schema).document
    if as_json:
        print_json(document)
        return
    for line in lines(document):
        typer.echo(line)


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """One gauge per line: `processors billing 1 lag_messages 17`. What is not known is left out."""
    for section, value in document.items():
        if section != "at":
            yield from _lines([section], value)


def _lines(words: list[str], value: Any) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, Mapping):
        names = [str(value[name]) for name in _NAMES if name in value]
        for key, each in value.items():
            if key not in _NAMES:
                yield from _lines([*words, *names, key], each)
    elif isinstance(value, list):
        for each in value:
            yield from _lines(words, each)
    else:
        yield " ".join([*words, f"{value:.3f}" if isinstance(value, float) else str(value)])


def _serve(mp: Milepost, host: str, port: int) -> None:
    # Imported here: prometheus-client is an extra.
    from milepost.observe.listen import Exporter, http_server, is_loopback

    try:
        server = http_server(host, port, Exporter(mp.connect, mp.schema))
    except OSError as error:
        raise CannotListen(host, port, error.strerror or str(error), "--listen") from error
    with server, suppress(KeyboardInterrupt):  # Ctrl-C ends it, and is no failure
        shown = f"[{host}]" if ":" in host else host
        say(f"metrics are at http://{shown}:{server.server_address[1]}/metrics")
        if not is_loopback(host):
            say("other machines can read them, without a password: they have names, no payload")
        server.serve_forever()
