"""The fingerprint covers all that decides vectors: each setting of each file is changed, and the vectors tell."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat import Extractor
from bertfeat.core.models import Model
from bertfeat.errors import BertfeatError
from tests.support.tiny_models import Tiny

TEXTS = (
    "The Bank, of the RIVER.",
    "Don't stop: naïve café owners re-open at 7.30 p.m.",
    "은행에서 돈을 찾았다,  🙂 東京都 and the river. ",
    " [MASK] <mask> </s> spaces  before\tand after ",
)
CHANGED: Mapping[str, tuple[object, ...]] = {  # other values of settings whose kind does not suggest one
    "activation": ("relu", "gelu_new"),
    "attention_type": ("original_full",),
    "hidden_act": ("relu", "gelu_new"),
    "hidden_activation": ("relu",),
    "tokenizer_class": ("BertTokenizer", "RobertaTokenizer", "PreTrainedTokenizerFast"),
    "strip_accents": (True, False),
    "lowercase": (False,),
}
MORE: Mapping[str, dict[str, object]] = {  # settings that files mostly leave at their defaults
    "tokenizer_config.json": {
        "do_lower_case": True,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        "add_prefix_space": True,
        "trim_offsets": True,
        "tokenizer_class": None,
        "cls_token": "[CLS]",
        "unk_token": "[UNK]",
    },
    "special_tokens_map.json": {"unk_token": "[UNK]", "sep_token": "[SEP]"},
    "added_tokens.json": {},
    "config.json": {"hidden_act": "gelu", "layer_norm_eps": 1e-12, "layer_norm_epsilon": 1e-5, "pad_token_id": 0},
}


def others(key: str, value: object) -> Iterator[object]:
    """Values that a setting might as well have."""
    yield from CHANGED.get(key, ())
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        yield 2 * value
    elif isinstance(value, float):
        yield 10 * value + 0.5
    elif isinstance(value, str):
        yield value.lower() if value != value.lower() else value.upper()
        yield "river"
    elif isinstance(value, dict):
        for inner, each in value.items():
            for other in others(inner, each):
                yield {**value, inner: other}
        yield {**value, "river": max([5, *(v for v in value.values() if isinstance(v, int))])}
    elif isinstance(value, list) and value:
        yield value[1:]


def vectors(folder: Path) -> NDArray[np.float32] | None:
    """Mean vectors of all texts; None where the model is refused."""
    try:
        extractor = Extractor(str(folder), layers="last", pooling="mean", precision="fp32", device="cpu")
        return extractor.encode(list(TEXTS))
    except BertfeatError:
        return None


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize(
    "family",
    [
        "bert",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("roberta", "albert")),
        *(pytest.param(name, marks=pytest.mark.hostile) for name in ("distilbert", "electra", "xlm-roberta", "mpnet")),
        *(pytest.param(name, marks=pytest.mark.hostile) for name in ("modernbert", "longformer")),
    ],
)
def test_other_vectors_have_another_fingerprint(family: str, tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    original = tiny(family).folder
    own, before = vectors(original), Model("x", original).fingerprint
    assert own is not None
    told = {"other vectors": 0, "the same": 0, "refused": 0}
    for file, more in MORE.items():
        path = original / file
        said: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
        for key, value in ({**more, **said} | ({"": said} if file == "added_tokens.json" else {})).items():
            for other in others(key, value):
                place = tmp_path / "changed"
                shutil.copytree(original, place)
                changed = {**said, key: other} if key else other
                (place / file).write_text(json.dumps(changed), "utf-8")
                found = vectors(place)
                if found is None:
                    told["refused"] += 1
                elif not np.array_equal(found, own):
                    told["other vectors"] += 1
                    assert Model("x", place).fingerprint != before, (file, key, value, other)
                else:
                    told["the same"] += 1
                shutil.rmtree(place)
    assert told["other vectors"] >= 3, told


@pytest.mark.parametrize("family", ["albert", "modernbert"])
def test_another_transformers_gives_the_same_fingerprint(
    family: str, tiny: Callable[[str], Tiny], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Families that transformers runs: a version that adds a setting, and has another default."""
    before = Model("x", tiny(family).folder).fingerprint
    config = type(Model("x", tiny(family).folder).library_config)
    monkeypatch.setattr(config, "to_dict", lambda self: {"river": 1, "hidden_act": "other"})
    monkeypatch.setattr(config, "to_diff_dict", lambda self: {"river": 1})
    assert Model("x", tiny(family).folder).fingerprint == before


@pytest.mark.parametrize("family", ["bert", "albert"])
def test_what_changes_no_vector_is_left_out(family: str, tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    original = tiny(family).folder
    before = Model("x", original).fingerprint
    place = Path(shutil.copytree(original, tmp_path / "again"))
    config = json.loads((place / "config.json").read_text("utf-8"))
    config |= {"_name_or_path": "somewhere", "transformers_version": "0.0", "hidden_dropout_prob": 0.5}
    config |= {"architectures": ["Other"], "torch_dtype": "float16", "use_cache": False, "layer_norm_eps": 1e-12}
    config |= {"initializer_range": 0.5, "classifier_dropout": None, "id2label": {"0": "a", "1": "b"}}
    (place / "config.json").write_text(json.dumps(dict(sorted(config.items(), reverse=True)), indent=3), "utf-8")
    path = place / "tokenizer_config.json"
    settings = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(
        json.dumps(settings | {"model_max_length": 77, "padding_side": "left", "name_or_path": "x"}), "utf-8"
    )
    (place / "README.md").write_text("a card", "utf-8")
    assert Model("x", place).fingerprint == before


def test_a_vocabulary_without_tokenizer_json_counts(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    place = Path(shutil.copytree(tiny("bert").folder, tmp_path / "old"))
    pieces = sorted(
        (vocabulary := json.loads((place / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]), key=vocabulary.get
    )
    (place / "tokenizer.json").unlink()
    prints = set()
    for name in ("vocab.txt", "tokenizer.model", "bpe.codes"):
        (place / name).write_text("\n".join(pieces), "utf-8")
        prints.add(Model("x", place).fingerprint)
    assert len(prints) == 3
