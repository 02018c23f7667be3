"""Every architecture is exact, alone and in company, or refused in one sentence; none is silently wrong."""

import re
from pathlib import Path

import pytest

from bertfeat.core.encoder import planned_path
from bertfeat.core.models import Model
from tests.support.architecture_check import SPELLED, check
from tests.support.tiny_architectures import ARCHITECTURES
from tests.support.tiny_models import FAMILIES, LONG_TEXT, PAIRS, TEXTS

FEW = (*TEXTS[:3], PAIRS[1], *SPELLED, LONG_TEXT[:260])
LEFT = {"gemma3_text, bidirectional", "ibert", "lilt", "luke", "markuplm", "openai_privacy_filter"}  # to the benchmark
COMPUTED = [name for name, each in ARCHITECTURES.items() if each.form and name not in LEFT | set(FAMILIES)]
REFUSED = {
    "bart": "no encoder",
    "bert, decoder": "no encoder",
    "bert, relative positions": "relative_key",
    "blip_2_qformer": "query_embeds",
    "bros": "where each token lies",
    "canine": "characters",
    "clip": "no num_hidden_layers",
    "embedding_gemma2_text": "not a vector of 32 values",
    "flaubert, pre_norm": "pre_norm",
    "flava": "no num_hidden_layers",
    "funnel": "no vector for each token",
    "layoutlmv2": "pictures",
    "led": "no encoder",
    "longt5": "no encoder",
    "lxmert": "visual_feats",
    "mbart": "no encoder",
    "modernvbert": "no num_hidden_layers",
    "mra": "no token sees another",
    "nystromformer, landmarks": "texts of exactly 64 tokens",
    "perceiver": "latent",
    "prophetnet": "no encoder",
    "reformer": "hashes at random",
    "reformer, hashing": "hashes at random",
    "roc_bert": "look and sound",
    "siglip_text_model": "a part of another model",
    "udop": "no encoder",
    "vilt": "pictures",
    "vit": "no vocab_size",
    "xlm, causal": "no encoder",
    "xmod, no language": r"name one of \['en_XX'\] as default_language",
    "yoso, hashing": "hashes at random",
}


def first_of_its_kind(name: str) -> bool:
    """Whether an architecture is the first of its ``model_type``; the others differ from it in their settings."""
    return name == next(other for other in COMPUTED if ARCHITECTURES[other].kind == ARCHITECTURES[name].kind)


@pytest.mark.sampled(20, 20)
@pytest.mark.parametrize("name", [name for name in COMPUTED if first_of_its_kind(name)])
def test_exact_alone_and_in_company(name: str, tmp_path: Path) -> None:
    _check_exact(name, tmp_path, load_again=False)


@pytest.mark.sampled(0, 24)
@pytest.mark.parametrize("name", COMPUTED)
def test_exact_when_loaded_again(name: str, tmp_path: Path) -> None:
    _check_exact(name, tmp_path, load_again=True)


def _check_exact(name: str, tmp_path: Path, *, load_again: bool) -> None:
    architecture = ARCHITECTURES[name]
    found = check(architecture, tmp_path / "model", FEW, load_again=load_again)
    assert found.form is architecture.form, found
    assert found.exact, found


def test_every_refusal_is_listed() -> None:
    assert sorted(REFUSED) == sorted(name for name, each in ARCHITECTURES.items() if each.form is None)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    found = check(ARCHITECTURES[name], tmp_path / "model", FEW)
    assert found.form is None
    assert "\n" not in found.refusal
    assert re.search(REFUSED[name], found.refusal), found.refusal


@pytest.mark.parametrize("name", ["bert", "albert", "fnet"])
def test_the_path_is_known_before_the_weights_are(name: str, tmp_path: Path) -> None:
    architecture = ARCHITECTURES[name]
    architecture.build(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    planned = planned_path(Model(name, tmp_path))
    assert planned.form is architecture.form
    assert planned.sentence.startswith(str(architecture.form))
    assert planned.difference is None
