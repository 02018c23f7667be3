"""The choice of layers, against scikit-learn's readers of Hugging Face's hidden states."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from numpy.typing import NDArray

from bertfeat import CorpusSettings, Extractor, FeatureSet, choose_layers, evaluate_layers
from bertfeat.cli import main
from bertfeat.errors import CorpusError, UsageError
from bertfeat.search import Interval
from bertfeat.study import ChosenLayers, LayerTrial
from tests.support.runs import jsonl_file, lines
from tests.support.tiny_models import Tiny, reference_tokenizer, text_states

pytest.importorskip("sklearn")

from sklearn.metrics import average_precision_score

from tests.support.layer_oracle import WORDS, label_texts, macro_f1, means


@pytest.fixture
def extractor(bert: Tiny) -> Extractor:
    return Extractor(bert.folder, precision="fp32", device="cpu", pooling="mean")


def scores(chosen: ChosenLayers) -> dict[str, float]:
    return {trial.layers: trial.score for trial in chosen.trials}


# ── every task ──────────────────────────────────────────────────────────────────────────────────────────────


def test_labels_of_texts(bert: Tiny, extractor: Extractor, tmp_path: Path) -> None:
    records = label_texts(bert, lines(90))
    chosen = choose_layers(extractor, jsonl_file(tmp_path / "dev.jsonl", records), "labels")
    random.Random(1).shuffle(records)
    states = np.stack([means(bert, record["text"]) for record in records])  # [n, L+1, H]
    last = states.shape[1] - 1
    choices = {str(layer): states[:, layer] for layer in range(last + 1)}
    for first in range(1, last - 2):
        run = [*range(first, first + 4)]
        name = "4" if run[-1] == last else f"={'+'.join(map(str, run))}"
        choices[f"sum{name}"] = states[:, run].sum(axis=1)
        choices[f"concat{name}"] = states[:, run].reshape(len(records), -1)
    assert set(scores(chosen)) == set(choices)
    for layers, vectors in choices.items():
        expected = macro_f1(vectors, [record["label"] for record in records])
        assert scores(chosen)[layers] == pytest.approx(expected, abs=0.03), layers
    assert (chosen.task, chosen.measure, chosen.examples) == ("labels", "macro F1", 90)
    assert chosen.chosen.score >= max(scores(chosen).values()) - 3 * chosen.chosen.error - 1e-9
    assert Extractor(bert.folder, layers=chosen.layers, device="cpu").columns


def test_pairs_are_read_from_both_texts(bert: Tiny, extractor: Extractor, tmp_path: Path) -> None:
    texts = lines(80)
    records = [{**record, "b": texts[-at]} for at, record in enumerate(label_texts(bert, texts))]
    reading = CorpusSettings(pair_column="b")
    chosen = choose_layers(
        extractor, jsonl_file(tmp_path / "dev.jsonl", records), "pairs", corpus_settings=reading, layers="2,last"
    )
    random.Random(1).shuffle(records)
    for layers, at in (("2", 2), ("last", -1)):
        first, second = (np.stack([means(bert, record[name])[at] for record in records]) for name in ("text", "b"))
        inputs = np.hstack([first, second, np.abs(first - second), first * second])
        expected = macro_f1(inputs, [record["label"] for record in records])
        assert scores(chosen)[layers] == pytest.approx(expected, abs=0.03)


def test_tags_of_words(extractor: Extractor, tmp_path: Path) -> None:
    draw, path = random.Random(3), tmp_path / "dev.conll"
    sentences = [[draw.choice(WORDS) for _ in range(6)] for _ in range(40)]
    tagged = ("\n".join(f"{word} {'B-X' if word in ('river', 'bank') else 'O'}" for word in each) for each in sentences)
    path.write_text("\n\n".join(tagged) + "\n")
    chosen = choose_layers(extractor, path, "tags", layers="0,1,concat4")
    assert scores(chosen)["0"] > 0.95  # the word alone tells its tag
    assert (chosen.examples, chosen.measure, chosen.layers) == (240, "macro F1", "0")


def test_senses_by_cosines(bert: Tiny, extractor: Extractor, tmp_path: Path) -> None:
    draw = random.Random(5)
    records = []
    for at in range(40):
        around = [draw.choice(WORDS[2:]) for _ in range(5)]
        word = ("river", "bank")[at % 2]
        text = " ".join([*around[:2], f"*{word}*", *around[2:]])
        records.append({"text": text, "sense": "wet" if "water" in around else "dry"})
    chosen = choose_layers(
        extractor, jsonl_file(tmp_path / "dev.jsonl", records), "senses", label="sense", layers="1,3"
    )
    for layer in (1, 3):
        units, precisions = [], []
        for record in records:
            plain = record["text"].replace("*", "")
            place = record["text"].split().index(next(word for word in record["text"].split() if word[0] == "*"))
            vector = word_vector(bert, plain, place, layer)
            units.append(vector / np.linalg.norm(vector))
        for at, record in enumerate(records):
            others = [other for other in range(40) if other % 2 == at % 2 and other != at]
            same = [records[other]["sense"] == record["sense"] for other in others]
            if any(same) and not all(same):
                precisions.append(average_precision_score(same, [float(units[at] @ units[other]) for other in others]))
        assert chosen.examples == len(precisions)
        assert scores(chosen)[str(layer)] == pytest.approx(float(np.mean(precisions)), abs=0.02)


def word_vector(tiny: Tiny, text: str, place: int, layer: int) -> NDArray[np.float32]:
    """Hugging Face's hidden state of the first subword of a word."""
    encoded = reference_tokenizer(tiny.folder)(text.split(), is_split_into_words=True)
    vector: NDArray[np.float32] = text_states(tiny.folder, text)[layer, encoded.word_ids().index(place)]
    return vector


def test_search(bert: Tiny, extractor: Extractor, tmp_path: Path) -> None:
    texts, folder = lines(30), tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    jsonl_file(folder / "corpus.jsonl", [{"_id": f"d{at}", "text": text} for at, text in enumerate(texts)])
    jsonl_file(folder / "queries.jsonl", [{"_id": f"q{at}", "text": texts[at][:20]} for at in range(12)])
    judged = [f"q{at}\td{at}\t1" for at in range(12)]
    (folder / "qrels/test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]) + "\n")
    chosen = choose_layers(extractor, folder, "search", layers="1,last,sum4")
    whole = Extractor(bert.folder, precision="fp32", device="cpu", pooling="mean", layers="all")
    whole.extract(folder / "corpus.jsonl", tmp_path / "all")
    table = evaluate_layers(tmp_path / "all", folder, layers=["1", "last", "sum4"], pooling="mean")
    expected = [row.scores["ndcg_at_10"].value for row in table.rows]
    assert list(scores(chosen).values()) == pytest.approx(expected, abs=1e-5)
    assert (chosen.examples, chosen.measure) == (12, "nDCG@10")


# ── the choice ──────────────────────────────────────────────────────────────────────────────────────────────


def trial(layers: str, width: int, score: float, low: float, high: float) -> LayerTrial:
    return LayerTrial(layers, width, score, Interval(score - 0.9, low, high))


def test_the_smallest_within_one_standard_error() -> None:
    best, near = trial("concat4", 400, 0.9, 0.0, 0.0), trial("7", 100, 0.89, -0.0316, 0.0116)
    far, smaller = trial("2", 100, 0.87, -0.0496, -0.0104), trial("3", 100, 0.895, -0.0246, 0.0146)
    for trials, layers in (
        ((best, far), "concat4"),  # 0.03 behind, with an error of 0.01
        ((best, near, far), "7"),  # 0.01 behind, with an error of 0.011
        ((best, near, smaller), "3"),
    ):
        assert ChosenLayers("m", "tags", "macro F1", 9, trials, 1.0).layers == layers


@pytest.mark.parametrize(
    ("task", "records", "more", "message"),
    [
        (
            "verbs",
            [{"text": "a", "label": "x"}],
            {},
            "task='verbs': must be one of 'tags', 'labels', 'pairs', 'search', 'senses'",
        ),
        ("tags", [{"text": "a", "label": "x"}], {}, "its words have no tags; give CoNLL, or tag_column"),
        (
            "labels",
            [{"text": "a", "kind": "x"}],
            {},
            r"no such field in the first 1,000 records; there are 'text', 'kind'",
        ),
        ("labels", [{"text": "a", "label": "x"}] * 9, {}, "a probe needs at least two classes of 'label'"),
        ("pairs", [{"text": "a", "label": "x"}], {}, "these are no pairs of texts; name the second with pair_column"),
        (
            "labels",
            [{"text": "a", "b": "b", "label": "x"}],
            {"pair_column": "b"},
            "these are pairs of texts; choose for",
        ),
        ("senses", [{"text": "a bank", "label": "x"}], {}, "the text '1' has 0 marked words; mark the word"),
        ("senses", [{"text": "a *bank*", "label": "x"}] * 3, {}, "no word has several usages of one sense and one of"),
    ],
)
def test_what_cannot_be_chosen(
    extractor: Extractor, tmp_path: Path, task: str, records: list[Any], more: dict[str, Any], message: str
) -> None:
    dev = jsonl_file(tmp_path / "dev.jsonl", records)
    with pytest.raises(UsageError, match=message):
        choose_layers(extractor, dev, task, corpus_settings=CorpusSettings(**more))


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def run(bert: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    jsonl_file(tmp_path / "dev.jsonl", [{**record, "kind": record["label"]} for record in label_texts(bert, lines(60))])
    jsonl_file(tmp_path / "c.jsonl", [{"text": text} for text in lines(9, 200)])
    model = ("--model", str(bert.folder), "--precision", "fp32", "--device", "cpu")
    return lambda *arguments: CliRunner().invoke(main, ["extract", "c.jsonl", *model, *arguments])


def test_extract_chooses_tells_and_keeps(run: Callable[..., Result]) -> None:
    asked = ("--layers", "auto", "--for", "labels:kind", "--dev", "dev.jsonl", "--pooling", "mean")
    result = run(*asked)
    assert result.exit_code == 0, result.output
    told = result.stderr
    assert "layers for labels: macro F1 of 60 examples" in told
    features = FeatureSet("c.features")
    (column,) = features.columns
    assert f"taken: --layers {column.recipe.spelling}, the smallest within one standard error of the best" in told
    assert features.manifest is not None
    chosen: Any = features.manifest.times["chosen"]
    assert (chosen["layers"], chosen["task"], chosen["examples"]) == (column.recipe.spelling, "labels", 60)
    assert len(chosen["trials"]) == told.count(" values ")
    shown = CliRunner().invoke(main, ["info", "c.features"]).stdout
    (taken,) = (each for each in chosen["trials"] if each["layers"] == chosen["layers"])
    assert f"layers       chosen for labels: macro F1 {taken['score']:.3f} of 60 examples" in shown
    Path("dev.jsonl").unlink()  # a folder with features keeps its layers
    Path("c.jsonl").write_text(Path("c.jsonl").read_text() + json.dumps({"text": "one more"}) + "\n")
    result = run(*asked, "--update")
    assert result.exit_code == 0, result.output
    assert f"c.features keeps its layers: {column.recipe.spelling}" in result.stderr
    features = FeatureSet("c.features")
    assert (len(features), features.columns) == (10, (column,))
    assert features.manifest is not None
    assert features.manifest.times["chosen"] == chosen


def test_words_for_tags(run: Callable[..., Result]) -> None:
    draw = random.Random(3)
    words = [[draw.choice(WORDS) for _ in range(6)] for _ in range(20)]
    tagged = ("\n".join(f"{word} {'B-X' if word == 'river' else 'O'}" for word in each) for each in words)
    Path("dev.conll").write_text("\n\n".join(tagged) + "\n")
    result = run("--layers", "auto", "--for", "tags", "--dev", "dev.conll", "-o", "words.features")
    assert result.exit_code == 0, result.output
    assert [str(column.pooling) for column in FeatureSet("words.features").columns] == ["word"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--layers", "auto"), "--layers auto needs a task and examples of it: --for tags --dev dev.conll"),
        (("--layers", "auto", "--for", "labels"), "--layers auto needs a task and examples of it"),
        (("--for", "labels", "--dev", "dev.jsonl"), "--for and --dev are for --layers auto; leave them out"),
        (("--layers", "auto", "--for", "verbs", "--dev", "dev.jsonl"), "'verbs': layers are not chosen for this"),
        (("--layers", "auto", "--for", "labels", "--dev", "nowhere"), "nowhere: no such file or folder"),
    ],
)
def test_wrong_uses(run: Callable[..., Result], arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code in (1, 2)
    assert message in result.stderr
    assert not Path("c.features").exists()


def test_max_pooling_has_no_sums(bert: Tiny, tmp_path: Path) -> None:
    extractor = Extractor(bert.folder, precision="fp32", device="cpu", pooling="max,word")
    chosen = choose_layers(extractor, jsonl_file(tmp_path / "dev.jsonl", label_texts(bert, lines(30))), "labels")
    assert {layers.partition("=")[0].rstrip("0123456789") for layers in scores(chosen)} == {"", "concat"}
    with pytest.raises(UsageError, match="this task reads vectors of texts, and no pooling of these gives one"):
        choose_layers(Extractor(bert.folder, pooling="word", device="cpu"), tmp_path / "dev.jsonl", "labels")


def test_rows_that_all_fail_and_files_without_examples(extractor: Extractor, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"the first because: .*field 'text' is null"):
        choose_layers(extractor, jsonl_file(tmp_path / "a.jsonl", [{"text": None, "label": "x"}]), "labels")
    with pytest.raises(CorpusError, match="there are no examples of labels in it"):
        choose_layers(extractor, jsonl_file(tmp_path / "b.jsonl", [{"text": "a", "label": None}]), "labels")
