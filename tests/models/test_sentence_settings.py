"""Settings of sentence-transformers' files: applied as sentence-transformers does, or named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from bertfeat import Extractor
from bertfeat.cli import main
from bertfeat.core.models import Model, find_model
from tests.support.sentence_models import oracle, peer, sentence_folder, with_encoder_apart
from tests.support.tiny_models import Tiny

TEXTS = ["The BANK of the River", "Don't STOP: Naïve CAFÉ", "ÀÉÎ İstanbul ẞ", ""]


def change(file: Path, **settings: object) -> None:
    said: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    file.write_text(json.dumps(said | settings), "utf-8")


@pytest.mark.parametrize("family", ["roberta", "xlm-roberta", "distilbert", "albert"])
def test_texts_are_lowercased_where_it_says_so(family: str, tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    folder = sentence_folder(tiny(family).folder, tmp_path / "made")
    before, plain = peer(folder).encode(TEXTS), Model("x", folder).fingerprint
    change(folder / "sentence_bert_config.json", do_lower_case=True)
    found = peer(folder).encode(TEXTS)
    np.testing.assert_allclose(found, oracle(folder).encode(TEXTS), atol=2e-5)
    if not np.array_equal(found, before):
        assert Model("x", folder).fingerprint != plain
    word = peer(folder, pooling="word")
    (document,) = word.features(TEXTS[:1])
    assert document.words is not None
    assert document.words.strings is not None
    assert [*document.words.strings] == ["The", "BANK", "of", "the", "River"]  # as the text has them


def test_an_encoder_in_a_folder_of_its_own(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    folder = sentence_folder(tiny("bert").folder, tmp_path / "made", pooling="cls", prompts={"query": "find: "})
    whole = peer(folder).encode(TEXTS)
    with_encoder_apart(folder)
    np.testing.assert_array_equal(peer(folder).encode(TEXTS), whole)
    np.testing.assert_allclose(peer(folder).encode(TEXTS), oracle(folder).encode(TEXTS), atol=2e-5)
    found = find_model(folder)
    assert (found.prompts, str(found.pooling)) == ({"query": "find: "}, "cls")
    assert found.stored_limits["sentence_bert_config.json"] == 40


def test_every_key_is_applied_or_named(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """Those that sentence-transformers 6 knows; what it writes by itself is as usual."""
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    applied = {
        "sentence_bert_config.json": {"max_seq_length", "do_lower_case", "unpad_inputs"},
        "1_Pooling/config.json": {"embedding_dimension", "include_prompt", "pooling_mode"},
        "config_sentence_transformers.json": {"prompts", "default_prompt_name", "similarity_fn_name", "model_type"},
    }
    known = {
        "sentence_bert_config.json": {*Transformer.config_keys, "max_seq_length", "do_lower_case", "model_args"},
        "1_Pooling/config.json": set(Pooling.config_keys),
        "config_sentence_transformers.json": {*applied["config_sentence_transformers.json"], "river"},
    }
    folder = sentence_folder(tiny("bert").folder, tmp_path / "made")
    oracle(folder).save(str(tmp_path / "saved"))
    assert Model("x", tmp_path / "saved").settings_not_applied == ()
    for file, keys in known.items():
        for key in keys - applied[file]:
            before = (folder / file).read_bytes()
            change(folder / file, **{key: "river"})
            assert Model("x", folder).settings_not_applied == (f'{key}: "river"',)
            (folder / file).write_bytes(before)


def test_what_is_not_applied_is_told(
    tiny: Callable[[str], Tiny], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = sentence_folder(tiny("bert").folder, tmp_path / "made")
    change(folder / "1_Pooling" / "config.json", river=False)
    shown = CliRunner().invoke(main, ["info", str(folder)]).stdout
    assert "not applied here: river: false" in " ".join(shown.split())
    Extractor(folder).encode(["a"])
    assert "river: false" in caplog.text


@pytest.mark.parametrize("where", ["tokenizer_config.json", "tokenizer.json"])
def test_the_side_that_is_cut_off_is_told(
    where: str, tiny: Callable[[str], Tiny], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """``truncate`` cuts the end, whatever the files say, and ``truncate-left`` is what they ask for."""
    folder = sentence_folder(tiny("bert").folder, tmp_path / "made")
    if where == "tokenizer.json":
        said = {"max_length": 40, "strategy": "LongestFirst", "stride": 0, "direction": "Left"}
        change(folder / where, truncation=said)
    else:
        change(folder / where, truncation_side="left")
    text = ["The bank of the river. " * 9 + "He stopped."]
    wanted = oracle(folder).encode(text)
    np.testing.assert_allclose(peer(folder, long="truncate-left").encode(text), wanted, atol=2e-5)
    assert np.abs(peer(folder).encode(text) - wanted).max() > 0.01
    note = "its tokenizer cuts the beginning of a text that is too long, as"
    assert note in caplog.text
    shown = CliRunner().invoke(main, ["info", str(folder)]).stdout
    assert f"{note} --long truncate-left does; --long truncate cuts the end" in " ".join(shown.split())
