"""``bertfeat serve``: serve models, indexes, feature sets and a tagger over HTTP."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertfeat.core import ModelSettings
from bertfeat.server import ServerSettings

from .app import Command, option
from .bundles import settings_options
from .config import config_option
from .console import Console
from .errors import tell_end_in
from .option_types import LOCATION, listed_option
from .options import output_options

if TYPE_CHECKING:
    from bertfeat.io import Location


def _named_models(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """The models of ``--also-model`` by their names, which are the models' own where none is given."""
    found: dict[str, str] = {}
    for each in given:
        name, equals, model = each.partition("=")
        if not name or (equals and not model):
            raise click.BadParameter(f"{each!r} is not MODEL or NAME=MODEL")
        if name in found:
            raise click.BadParameter(f"two models would have the name {name!r}")
        found[name] = model or name
    return found


@click.command(cls=Command, name="serve")
@click.argument("folders", nargs=-1, metavar="[INDEX|FEATURES]...", type=LOCATION)
@config_option("folders")
@settings_options("settings", ServerSettings)
@option(
    "--also-model",
    "also_models",
    multiple=True,
    metavar="[NAME=]MODEL",
    callback=_named_models,
    further=True,
    help="Another model, for requests that name it; may be given several times.",
)
@option("--tagger", type=click.Path(path_type=Path), metavar="DIR", help="A tagger, for /tag.")
@listed_option("--layers", metavar="SPEC", help="The layers of requests that name none.", show_default="as recorded")
@listed_option("--pooling", metavar="POOL", help="Their pooling.", show_default="the model's")
@settings_options("model", ModelSettings, fields=("model", "precision", "device"))
@option("--no-auth", is_flag=True, help="Let other machines in without a key.")
@output_options
def command(
    folders: tuple["Location", ...],
    also_models: dict[str, str],
    tagger: Path | None,
    layers: tuple[str, ...] | None,
    pooling: tuple[str, ...] | None,
    model: ModelSettings,
    no_auth: bool,
    settings: ServerSettings,
    console: Console,
) -> None:
    """Serve vectors of any layer, and a page to search and read on, to clients of OpenAI's API and others.

    Texts of all requests that wait go through the encoder together. With an INDEX /search and the page search it, and
    a request names another by "index"; with FEATURES of words /usages and the page show a word in its contexts. Long
    texts are read in overlapping windows unless a request asks for a cut, and then the answer says which were cut.
    /openapi.json tells all routes.

    \b
    bertfeat serve corpus.index words.features
    bertfeat serve --config serve.toml
    bertfeat serve --model intfloat/e5-base-v2 --host 0.0.0.0 --api-key "$KEY"
    """
    if settings.api_keys and no_auth:
        raise click.UsageError("--api-key asks for a key and --no-auth for none; give one of the two")
    if settings.host not in ("127.0.0.1", "::1", "localhost") and not settings.api_keys and not no_auth:
        raise click.UsageError(
            f"--host {settings.host} lets other machines in; give an --api-key (or BERTFEAT_SERVE_API_KEY), "
            f"or say --no-auth"
        )
    from bertfeat.io import use_one_arena
    from bertfeat.server import log_as_json, open_service, run_server

    use_one_arena()  # threads reuse the memory that others have freed
    service = open_service(
        folders,
        settings,
        model=model.model,
        also_models=also_models,
        tagger=tagger,
        layers=layers or None,
        pooling=pooling or None,
        precision=None if model.precision == "auto" else model.precision,
        device=model.device,
    )

    def say_address(address: str) -> None:
        console.say(f"{', '.join(each.name for each in service.models)} at {address}")
        log_as_json(requests=not console.quiet)
        tell_end_in(logging.getLogger("bertfeat"))  # stderr has lines of JSON from now on

    run_server(service, on_start=say_address)
