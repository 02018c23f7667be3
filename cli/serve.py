"""``bertfeat serve``: a model, an index, feature sets and a tagger over HTTP."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .app import Command, option
from .bundles import leave_out
from .console import Console
from .option_types import LOCATION, ByteSize, listed_option
from .options import ModelOptions, model_options, output_options

if TYPE_CHECKING:
    from bertfeat.io import Location

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command(cls=Command, name="serve")
@click.argument("folders", nargs=-1, metavar="[INDEX|FEATURES]...", type=LOCATION)
@option("--port", type=click.IntRange(0, 65535), default=8000, metavar="N", help="The port.")
@option("--host", default="127.0.0.1", metavar="ADDRESS", help="The address; 0.0.0.0 for other machines.")
@option("--tagger", type=click.Path(path_type=Path), metavar="DIR", help="A tagger, for /tag.")
@listed_option("--layers", metavar="SPEC", help="The layers of requests that name none.", show_default="as recorded")
@listed_option("--pooling", metavar="POOL", help="Their pooling.", show_default="the model's")
@model_options
@option("--api-key", multiple=True, metavar="KEY", help="A key that requests need; may be given several times.")
@option("--no-auth", is_flag=True, help="Let other machines in without a key.")
@option(
    "--cors",
    "cors_origins",
    multiple=True,
    further=True,
    metavar="ORIGIN",
    help="Pages of this origin may call; *: all.",
)
@option("--prefix", further=True, default="", metavar="PATH", help="What stands before all paths: /bertfeat.")
@option(
    "--accept-token-ids", is_flag=True, further=True, help="Take token ids of this model's own tokenizer for texts."
)
@option("--most-texts", type=click.IntRange(1), default=2048, further=True, metavar="N", help="Texts of a request.")
@option("--most-tokens", type=click.IntRange(1), default=300_000, further=True, metavar="N", help="Its tokens.")
@option("--most-body", type=ByteSize(), default="32MiB", further=True, metavar="SIZE", help="Its bytes.")
@option(
    "--most-waiting", type=click.IntRange(1), default=1_000_000, further=True, metavar="N", help="Tokens that may wait."
)
@option("--timeout", type=click.FloatRange(1), default=120.0, further=True, metavar="SECONDS", help="Of a request.")
@output_options
def command(
    folders: tuple["Location", ...],
    port: int,
    host: str,
    tagger: Path | None,
    layers: tuple[str, ...] | None,
    pooling: tuple[str, ...] | None,
    model: ModelOptions,
    api_key: tuple[str, ...],
    no_auth: bool,
    cors_origins: tuple[str, ...],
    prefix: str,
    accept_token_ids: bool,
    most_texts: int,
    most_tokens: int,
    most_body: int,
    most_waiting: int,
    timeout: float,
    console: Console,
) -> None:
    """Serve vectors of any layer, and a page to search and read on, to clients of OpenAI's API and others.

    Texts of all requests that wait go through the encoder together. With an INDEX /search and the page search it, with
    FEATURES of words /usages and the page show a word in its contexts. Long texts are read in overlapping windows
    unless a request asks for a cut, and then the answer says which were cut. /openapi.json tells all routes.

    \b
    bertfeat serve corpus.index words.features
    bertfeat serve --model intfloat/e5-base-v2 --host 0.0.0.0 --api-key "$KEY"
    """
    _check_access(host, api_key, no_auth)
    from bertfeat.io import use_one_arena
    from bertfeat.server import ServerSettings, open_service, run_server

    settings = ServerSettings(
        host=host,
        port=port,
        prefix=_clean_prefix(prefix),
        api_keys=api_key,
        cors_origins=cors_origins,
        accept_token_ids=accept_token_ids,
        most_texts=most_texts,
        most_tokens=most_tokens,
        most_body=most_body,
        most_waiting_tokens=most_waiting,
        request_seconds=timeout,
    )
    use_one_arena()
    service = open_service(
        folders,
        settings,
        model=model.model,
        tagger=tagger,
        layers=layers or None,
        pooling=pooling or None,
        precision=None if model.precision == "auto" else model.precision,
        device=model.device,
    )
    _log_requests(quiet=console.quiet)
    run_server(service, on_start=lambda address: console.say(f"{service.name} at {address}"))


def _log_requests(*, quiet: bool) -> None:
    """Write the line of each request to stderr, unless that is not wanted."""
    if quiet:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("bertfeat.server")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def _check_access(host: str, keys: tuple[str, ...], no_auth: bool) -> None:
    if keys and no_auth:
        raise click.UsageError("--api-key asks for a key and --no-auth for none; give one of the two")
    if any(not key.strip() or not key.isascii() for key in keys):
        raise click.UsageError("--api-key is empty, or not of ASCII")
    if host not in LOOPBACK and not keys and not no_auth:
        raise click.UsageError(
            f"--host {host} lets other machines in; give an --api-key (or BERTFEAT_SERVE_API_KEY), or say --no-auth"
        )


def _clean_prefix(prefix: str) -> str:
    return f"/{prefix.strip('/')}" if prefix.strip("/") else ""


leave_out(command, "revision", "batch_tokens")
