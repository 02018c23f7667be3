"""Which feature column usages are compared by, and which columns conditions can name."""

import shlex

from bertfeat.errors import FeatureSetError, NotDerivableError
from bertfeat.features import FeatureSet, ReadableColumn
from bertfeat.recipe import Pooling

_INTEGERS = ("row", "n_tokens", "n_unk", "n_truncated")
_STRINGS = ("id", "text", "pair")


def find_usage_column(features: FeatureSet, column: str | None) -> ReadableColumn:
    """The word column of that name or recipe, or the token column where there is none; default: the only one.

    Raises:
        FeatureSetError: the set has no texts, or no vectors of tokens or words; the message gives the remedy.
        NotDerivable: the column cannot be had, or several could be meant.
    """
    stored = {column.pooling for column in features.columns}
    kinds = [kind for kind in (Pooling.WORD, Pooling.TOKEN) if kind in stored]
    if not kinds:
        raise FeatureSetError(
            f"{features.folder} has one vector a document, but usages compare words; make a set that has them: "
            f"{_extract_command(features)}"
        )
    if "text" not in features.names:
        raise FeatureSetError(
            f"{features.folder} was made with --no-text, so there are no words to look for; "
            f"extract it again without that option"
        )
    recipe, _, named = (column or "").rpartition("_")
    if named in [pooling for pooling in Pooling if pooling.per_document]:
        raise NotDerivableError(
            f"--column {column} is one vector a document, but usages compare words; "
            f"give the recipe alone: --column {recipe}"
        )
    problems = []
    for kind in [None] if named in (Pooling.WORD, Pooling.TOKEN) else kinds:
        try:
            return features.find(column, kind)
        except NotDerivableError as error:
            problems.append(error)
    raise NotDerivableError(f"--column {column}: {problems[0]}" if column else f"{problems[0]}; choose with --column")


def condition_columns(features: FeatureSet) -> dict[str, str]:
    """The columns of a set that conditions can name, and of what kind each is."""
    own = {**dict.fromkeys(_INTEGERS, "int64"), **dict.fromkeys(_STRINGS, "string")}
    kept = {column.name: column.type for column in features.kept}
    kinds = {**own, **kept}
    return {name: kinds[name] for name in features.names if name in kinds}


def _extract_command(features: FeatureSet) -> str:
    sources = " ".join(map(shlex.quote, features.header.sources)) or "CORPUS"
    model = shlex.quote(features.header.model.name)
    layers = features.columns[0].recipe.spec
    target = shlex.quote(str(features.folder.with_suffix(".words.features")))
    return f"bertfeat extract {sources} --model {model} --layers {layers} --pooling word -o {target}"
