"""Which feature column usages are compared by."""

import shlex

from bertfeat.errors import FeatureSetError, NotDerivable
from bertfeat.features import FeatureSet, FoundColumn
from bertfeat.recipe import Pooling


def find_column(features: FeatureSet, layers: str | None) -> FoundColumn:
    """The word column that ``layers`` name, or the token column where there is none; default: the only one.

    Raises:
        FeatureSetError: the set has no texts, or no vectors of tokens or words; the message gives the remedy.
        NotDerivable: the layers cannot be had, or several columns could be meant.
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
    if layers and layers.rpartition("_")[2] in (Pooling.MEAN, Pooling.CLS, Pooling.MAX):
        raise NotDerivable(f"--layers {layers} is one vector a document; give the layers alone: --layers concat4")
    problems = []
    for kind in kinds:
        try:
            return features.find(layers, kind)
        except NotDerivable as error:
            problems.append(error)
    raise NotDerivable(f"--layers {layers}: {problems[0]}" if layers else f"{problems[0]}; choose with --layers")


def _extract_command(features: FeatureSet) -> str:
    sources = " ".join(map(shlex.quote, features.header.sources)) or "CORPUS"
    model = shlex.quote(features.header.model.name)
    layers = features.columns[0].recipe.spec
    target = shlex.quote(str(features.folder.with_suffix(".words.features")))
    return f"bertfeat extract {sources} --model {model} --layers {layers} --pooling word -o {target}"
