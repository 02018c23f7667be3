"""Tokenizers read without transformers are, to the last setting, those that transformers would build."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as FastTokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer

from bertfeat.core.models import Model, find_model
from bertfeat.core.tokens.tokenizer_file import read_tokenizer_file
from tests.support.crafted import changed
from tests.support.tiny_models import PACKED, PAIRS, TEXTS, build
from tests.support.tiny_tokenizers import SENTENCES

BERT, ROBERTA, XLM_ROBERTA = "BertTokenizer", "RobertaTokenizer", "XLMRobertaTokenizer"
CLASS = {"bert": BERT, "distilbert": BERT, "electra": BERT, "roberta": ROBERTA, "xlm-roberta": XLM_ROBERTA}


def same_as_transformers(folder: Path) -> bool:
    """Compare all settings, vocabularies and results; false where the file is left to transformers."""
    loaded = read_tokenizer_file(Model("x", folder))
    if loaded is None:
        return False
    reference = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    assert loaded.unknown_id == reference.unk_token_id
    ours, theirs = loaded.tokenizer, reference.backend_tokenizer
    for tokenizer in (ours, theirs):
        tokenizer.no_truncation()
        tokenizer.no_padding()
    parts, wanted = (json.loads(tokenizer.to_str()) for tokenizer in (ours, theirs))
    for affix in ("continuing_subword_prefix", "end_of_word_suffix"):  # empty or none is the same
        for made in (parts, wanted):
            made["model"][affix] = made["model"].get(affix) or None
    parts.pop("decoder"), wanted.pop("decoder")  # of no use here
    assert parts == wanted
    for text in (*TEXTS, *SENTENCES, *PAIRS):
        a, b = (tokenizer.encode(*([text] if isinstance(text, str) else text)) for tokenizer in (ours, theirs))
        assert (a.ids, a.offsets, a.type_ids, a.tokens) == (b.ids, b.offsets, b.type_ids, b.tokens)
    return True


def bert_pieces(tokenizer: FastTokenizer) -> None:
    tokenizer.normalizer = normalizers.BertNormalizer()
    cls, sep = (tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)]
    )


def xlm_roberta_pieces(tokenizer: FastTokenizer) -> None:
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )


def roberta_pieces(tokenizer: FastTokenizer) -> None:
    model = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer.model = models.BPE(
        model["vocab"], merges, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False
    )


AS_BUILT: dict[str, Callable[[FastTokenizer], None]] = {
    BERT: bert_pieces,
    ROBERTA: roberta_pieces,
    XLM_ROBERTA: xlm_roberta_pieces,
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    work = tmp_path_factory.mktemp("built")

    def make(family: str) -> Path:
        folder = work / family
        return folder if folder.exists() else build(family, folder)

    return make


def as_class(folder: Path, family: str, **settings: Any) -> Path:
    """Let a tiny model's tokenizer be one of its family's class, as published models have it."""
    file = folder / "tokenizer.json"
    tokenizer = FastTokenizer.from_file(str(file))
    AS_BUILT[CLASS[family]](tokenizer)
    tokenizer.save(str(file))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": CLASS[family], **settings}))
    return folder


def test_the_default_model() -> None:
    assert same_as_transformers(find_model().folder)


@pytest.mark.parametrize("family", PACKED)
def test_tiny_families(family: str, built: Callable[[str], Path]) -> None:
    assert same_as_transformers(built(family))


@pytest.mark.parametrize("family", CLASS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tokenizer_class": None},
        {"tokenizer_class": "TokenizersBackend"},
        {"max_length": 32, "stride": 0, "truncation_side": "right", "truncation_strategy": "longest_first"},
        {"pad_to_multiple_of": None, "pad_token_type_id": 0, "padding_side": "right", "model_max_length": 64},
        {"clean_up_tokenization_spaces": True, "do_basic_tokenize": True, "never_split": None, "sp_model_kwargs": {}},
        {"name_or_path": "x", "special_tokens_map_file": None, "tokenizer_file": None, "model_input_names": ["ids"]},
        {"extra_special_tokens": [], "additional_special_tokens": []},
    ],
    ids=lambda settings: ",".join(settings) or "class",
)
def test_families_by_their_classes(
    family: str, settings: dict[str, Any], built: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = as_class(Path(shutil.copytree(built(family), tmp_path / "model")), family, **settings)
    if settings.get("tokenizer_class") is None:
        changed(folder, "tokenizer_config.json", lambda config: config.pop("tokenizer_class", None))
    assert same_as_transformers(folder)


@pytest.mark.parametrize("name", ["BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizer"])
def test_other_names_of_a_class(name: str, built: Callable[[str], Path], tmp_path: Path) -> None:
    folder = as_class(Path(shutil.copytree(built("bert"), tmp_path / "model")), "bert", tokenizer_class=name)
    assert same_as_transformers(folder)


def file(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    return lambda folder: changed(folder, "tokenizer.json", change)


def config(**changes: Any) -> Callable[[Path], object]:
    return lambda folder: changed(folder, "tokenizer_config.json", lambda made: made.update(changes))


def both(*changes: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda folder: [change(folder) for change in changes]


def described(**flags: Any) -> dict[str, Any]:
    return {"content": "[MASK]", "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, **flags}


def put(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))


def decoder_of(folder: Path) -> object:
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    return config(added_tokens_decoder={str(token.pop("id")): token for token in added})(folder)


@pytest.mark.parametrize(
    ("change", "direct"),
    [
        (config(do_lower_case=False), False),
        (config(strip_accents=True), False),
        (config(tokenize_chinese_chars=False), False),
        (both(config(do_lower_case=False), file(lambda made: made["normalizer"].update(lowercase=False))), True),
        (config(unk_token="[MASK]"), False),
        (config(mask_token="[HERE]"), False),
        (config(mask_token=described(lstrip=True)), False),
        (config(mask_token=described(__type="AddedToken", lstrip=True)), True),
        (config(mask_token=5), False),
        (config(additional_special_tokens=["[MASK]"]), True),
        (config(additional_special_tokens=["[NEW]"]), False),
        (config(split_special_tokens=True), False),
        (config(tokenizer_class="BertJapaneseTokenizer"), False),
        (decoder_of, True),
        (both(decoder_of, file(lambda made: made["added_tokens"].pop())), False),
        (config(added_tokens_decoder={}), False),
        (file(lambda made: made["added_tokens"].clear()), False),
        (file(lambda made: made["added_tokens"][-1].update(special=False)), False),
        (file(lambda made: made["added_tokens"][-1].update(lstrip=True)), True),
        (file(lambda made: made["model"].update(max_input_chars_per_word=7)), False),
        (file(lambda made: made["model"].update(continuing_subword_prefix="@@")), False),
        (file(lambda made: made.update(normalizer=None)), False),
        (file(lambda made: made.update(pre_tokenizer={"type": "Whitespace"})), False),
        (file(lambda made: made.update(post_processor=None)), False),
        (lambda folder: (folder / "added_tokens.json").write_text("{}"), False),
        (lambda folder: (folder / "special_tokens_map.json").write_text('{"mask_token": "[MASK]"}'), True),
        (lambda folder: (folder / "special_tokens_map.json").write_text('{"mask_token": "[NEW]"}'), False),
        (lambda folder: put(folder / "special_tokens_map.json", {"mask_token": described()}), True),
        (lambda folder: (folder / "tokenizer_config.json").unlink(), True),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), False),
    ],
)  # fmt: skip
def test_what_differs_is_left_to_transformers(
    change: Callable[[Path], object], direct: bool, built: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = as_class(Path(shutil.copytree(built("bert"), tmp_path / "model")), "bert")
    change(folder)
    assert same_as_transformers(folder) is direct


@pytest.mark.parametrize(("prefix", "direct"), [(True, True), (False, False)])
@pytest.mark.parametrize("family", ["roberta", "xlm-roberta"])
def test_a_space_before_the_first_word(
    family: str, prefix: bool, direct: bool, built: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = as_class(Path(shutil.copytree(built(family), tmp_path / "model")), family)
    config(add_prefix_space=prefix)(folder)
    if family == "roberta":  # whose files have none
        direct = not direct
    assert same_as_transformers(folder) is direct


def test_vocabulary_files_are_left_to_transformers(built: Callable[[str], Path], tmp_path: Path) -> None:
    folder = as_class(Path(shutil.copytree(built("bert"), tmp_path / "model")), "bert")
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)), "utf-8")
    assert read_tokenizer_file(Model("x", folder)) is None
