"""Probes against scikit-learn's own cross-validation, and what cannot be probed."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from bertfeat.cli import main
from bertfeat.core.corpus import KeptColumn, Value
from bertfeat.core.features import FeatureSet
from bertfeat.errors import NotDerivableError, UsageError
from bertfeat.progress import StepProgress
from bertfeat.study import ProbeScores, ProbeSettings, probe_layers, read_probes
from bertfeat.study.probe_examples import Examples, check_classifier_memory
from tests.support.features_toy import Toy, ToyDocument, toy_part, toy_set

sklearn = pytest.importorskip("sklearn")

from sklearn.dummy import DummyClassifier  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, cross_validate  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

ROWS, TELLING = 72, 2  # documents, and the layer that tells the label


def kind(document: ToyDocument) -> str | None:
    if document.row % 12 == 5:
        return None
    return "high" if document.feature("sum", [TELLING], "mean")[0] > 0 else "low"


def tags(document: ToyDocument) -> list[str]:
    return ["B-X" if value > 0 else "O" for value in document.hidden[TELLING][1:-1, 0]]


def labeled(toy: Toy) -> Toy:
    """Labels that follow from one layer; every document its own."""
    kept: dict[KeptColumn, Sequence[Value]] = {
        KeptColumn("kind", "string"): [kind(document) for document in toy.documents],
        KeptColumn("same", "int64"): [7 for _ in toy.documents],
        KeptColumn("row number", "float64"): [float(document.row) for document in toy.documents],
        KeptColumn("rare", "string"): ["seldom" if document.row in (3, 9) else "often" for document in toy.documents],
        KeptColumn("third", "string"): [
            "c" if document.row in (3, 9) else kind(document) for document in toy.documents
        ],
        KeptColumn("empty", "string"): [None for _ in toy.documents],
        KeptColumn("halves", "float64"): [
            (None, float("nan"), -0.0, 0.0)[document.row % 4] if document.row % 4 < 3 else 1.5
            for document in toy.documents
        ],
        KeptColumn("even", "bool"): [
            None if document.row % 9 == 8 else document.row % 2 == 0 for document in toy.documents
        ],
    }
    return replace(toy, content=replace(toy.content, kept=kept, tags=[tags(document) for document in toy.documents]))


def features(folder: Path, **options: Any) -> FeatureSet:
    defaults: dict[str, Any] = {"layers": "all,concat4", "poolings": ("mean", "word"), "dtype": "float32", "tags": True}
    options = {**defaults, **options}
    parts = (toy_part(0, 0, 40, **options), toy_part(1, 40, ROWS - 40, failures=[50], **options))
    return FeatureSet(toy_set(folder, *map(labeled, parts)))


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    return features(tmp_path_factory.mktemp("probes") / "toy.features")


def expected(vectors: Any, labels: Any, groups: Any, seed: int, classifier: Any = None) -> ProbeScores:
    """The same by scikit-learn's cross_validate."""
    classifier = classifier or make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    cut = (StratifiedKFold if groups is None else StratifiedGroupKFold)(5, shuffle=True, random_state=seed)
    scoring = {"accuracy": "accuracy", "f1": "f1_macro"}
    found = cross_validate(classifier, vectors, labels, groups=groups, cv=cut, scoring=scoring)
    accuracy, f1 = found["test_accuracy"], found["test_f1"]
    return ProbeScores(accuracy.mean(), accuracy.std(), f1.mean(), f1.std())


def same(found: ProbeScores, wanted: ProbeScores) -> None:
    for name in ("accuracy", "accuracy_spread", "macro_f1", "macro_f1_spread"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), abs=1e-9), name


COLUMNS = ["layer0", "layer1", "layer2", "layer3", "layer4", "concat4"]


def test_documents_are_probed_as_scikit_learn_does(toy: FeatureSet) -> None:
    probed = probe_layers(toy, "kind")
    there = [document for document in toy if document.values["kind"] is not None]
    labels = [str(document.values["kind"]) for document in there]
    assert [each.column for each in probed.layers] == COLUMNS
    assert [each.layer for each in probed.layers] == [0, 1, 2, 3, 4, None]
    for each in probed.layers:
        vectors = np.stack([document.vector(each.column, "mean") for document in there])
        same(each.measured, expected(vectors, labels, None, 1))
        assert each.converged
    same(probed.baseline, expected(vectors, labels, None, 1, DummyClassifier()))
    assert probed.best.column == f"layer{TELLING}"
    assert (probed.examples, probed.labeled, probed.nulls, probed.unaligned) == (len(there), len(there), 6, 0)
    assert probed.classes == {name: labels.count(name) for name in ("high", "low")}
    assert (probed.pooling, probed.label, probed.model) == ("mean", "kind", "toy/model")


def test_words_are_probed_as_scikit_learn_does(toy: FeatureSet) -> None:
    probed = probe_layers(toy, "tags", ProbeSettings(layers=("2", "last", "4", "sum4"), seed=5))
    assert [each.column for each in probed.layers] == ["layer2", "layer4", "sum4"]
    for each in probed.layers:
        vectors, labels, groups = [], [], []
        for document in toy:
            matrix = document.matrix(each.column, "word")
            assert document.words is not None
            assert document.words.aligned is not None
            assert document.tags is not None
            for at in np.flatnonzero(document.words.aligned).tolist():
                vectors.append(matrix[at])
                labels.append(document.tags[at])
                groups.append(document.row)
        same(each.measured, expected(np.stack(vectors), labels, np.array(groups), 5))
    assert probed.best.column == "layer2"
    assert probed.unaligned == sum("🙂" in str(document.text) for document in toy)
    assert probed.examples == len(labels)
    assert sum(probed.classes.values()) == len(labels)


def test_no_document_is_on_both_sides(tmp_path: Path) -> None:
    # all words of a document are alike, so any of them would give away the others' tag; other documents tell nothing
    toy = toy_part(0, 0, 60, layers="last", poolings=("word",), dtype="float32", tags=True)
    words, random = toy.content.words, np.random.default_rng(0)
    assert words is not None
    lengths = np.diff(words.offsets)
    alike = np.repeat(random.standard_normal((60, 8)).astype(np.float32), lengths, axis=0)
    tags = [[f"T{random.integers(2)}"] * length for length in lengths]
    content = replace(toy.content, words=replace(words, matrices={"last_word": alike}), tags=tags)
    found = FeatureSet(toy_set(tmp_path / "alike.features", replace(toy, content=content)))
    assert probe_layers(found, "tags").layers[0].measured.accuracy < 0.75


def test_a_sample_is_of_whole_documents(toy: FeatureSet) -> None:
    few = probe_layers(toy, "tags", ProbeSettings(most=60, folds=3, layers=("2",)))
    again = probe_layers(toy, "tags", ProbeSettings(most=60, folds=3, layers=("2",)))
    other = probe_layers(toy, "tags", ProbeSettings(most=60, folds=3, layers=("2",), seed=2))
    assert 50 < few.examples <= 60
    assert few == again
    assert few.classes != other.classes or few.layers != other.layers


def test_rare_classes_may_be_left_out(toy: FeatureSet) -> None:
    with pytest.raises(UsageError, match="'seldom' of 'rare' is in 2 documents, fewer than the 5 folds; leave such"):
        probe_layers(toy, "rare")
    found = probe_layers(toy, "rare", ProbeSettings(folds=2, layers=("last",)))
    assert found.classes == {"often": 69, "seldom": 2}
    with pytest.raises(UsageError, match="at least two classes of 'rare' among what has a label; all there is is 'oft"):
        probe_layers(toy, "rare", ProbeSettings(min_members=3))
    third = probe_layers(toy, "third", ProbeSettings(min_members=3, layers=("last",)))
    assert set(third.classes) == {"high", "low"}
    assert (third.rare, third.examples, third.nulls) == (2, 63, 6)


def test_steps_are_told(toy: FeatureSet) -> None:
    told: list[StepProgress] = []
    probe_layers(toy, "kind", ProbeSettings(layers=("1", "2"), folds=3), progress=told.append)
    assert [str(step) for step in told] == [f"{number} of 6 classifiers" for number in range(1, 7)]


@pytest.mark.parametrize(
    ("label", "settings", "error", "told"),
    [
        (
            "knd",
            {},
            UsageError,
            "no label 'knd'; there are: kind, same, row number, .*, tags; did you mean kind[?] extract with",
        ),
        ("same", {}, UsageError, "at least two classes of 'same' among what has a label; all there is is '7'"),
        ("empty", {}, UsageError, "at least two classes of 'empty' among what has a label; there is none"),
        (
            "row number",
            {},
            UsageError,
            r"and 70 more of the 71 classes are as rare; its values are numbers, and each of them is taken for a class",
        ),
        (
            "row number",
            {"min_members": 2},
            UsageError,
            r"all there is is|there is none; 71 members of rarer classes were left out \(min_members\)",
        ),
        ("kind", {"pooling": "cls"}, NotDerivableError, "none of cls pooling; extract with pooling='cls'"),
        ("tags", {"pooling": "mean"}, NotDerivableError, "tags are probed on vectors of words"),
        ("kind", {"layers": ("9",)}, NotDerivableError, "outside the model"),
        ("kind", {"layers": ("concat=0..2", "x")}, NotDerivableError, "no column 'x'"),
    ],
)
def test_what_cannot_be_probed(toy: FeatureSet, label: str, settings: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        probe_layers(toy, label, ProbeSettings(**settings))


@pytest.mark.parametrize(
    "wrong",
    [
        {"folds": 1},
        {"most": 0},
        {"strength": 0.0},
        {"strength": float("nan")},
        {"strength": float("inf")},
        {"seed": 2**40},
    ],
)
def test_settings_that_cannot_be(wrong: Any) -> None:
    with pytest.raises(UsageError):
        ProbeSettings(**wrong)


def test_numbers_that_are_none_and_truth_values_are_labels_or_none(toy: FeatureSet) -> None:
    halves = probe_layers(toy, "halves", ProbeSettings(folds=2, layers=("last",)))
    assert halves.classes == {"0.0": 17, "1.5": 18}
    assert halves.nulls == 36  # null, and what is not a number
    even = probe_layers(toy, "even", ProbeSettings(folds=3, layers=("last",)))
    assert list(even.classes) == ["False", "True"]
    assert even.nulls == 8


def test_more_classes_than_memory_are_refused(toy: FeatureSet) -> None:
    """Before anything is learned: ten thousand classes of a million words, in a hundred dimensions and in a million."""
    members = np.repeat(np.arange(10_000), 100)
    examples = Examples(members >= 0, tuple(map(str, range(10_000))), members, np.arange(1_000_000), 0)
    with pytest.raises(UsageError, match=r"1,000,000 examples into 10,000 classes takes about \d+ [GT]B"):
        check_classifier_memory(examples, 100)
    few = Examples(members < 2, ("a", "b"), members[:200], np.arange(200), 0)
    check_classifier_memory(few, 768)
    with pytest.raises(UsageError, match="give a smaller most"):
        check_classifier_memory(examples, 10**6)


def test_a_fold_that_lacks_a_class_is_measured_as_scikit_learn_does(tmp_path: Path) -> None:
    """Of words no document is in two folds, so a rare tag may be in the documents of one fold alone."""
    toy = toy_part(0, 0, 60, layers="last", poolings=("word",), dtype="float32", tags=True)
    words = toy.content.words
    assert words is not None
    lengths = np.diff(words.offsets).tolist()
    tags = [[f"T{(row + at) % 2}" if row % 11 else "RARE" for at in range(size)] for row, size in enumerate(lengths)]
    found = FeatureSet(toy_set(tmp_path / "rare.features", replace(toy, content=replace(toy.content, tags=tags))))
    probed = probe_layers(found, "tags", ProbeSettings(folds=5, seed=5))
    vectors, labels, groups = [], [], []
    for document in found:
        assert document.words is not None
        assert document.words.aligned is not None
        for at in np.flatnonzero(document.words.aligned).tolist():
            vectors.append(document.matrix("last", "word")[at])
            labels.append((document.tags or ())[at])
            groups.append(document.row)
    same(probed.layers[0].measured, expected(np.stack(vectors), labels, np.array(groups), 5))


def test_sets_without_what_the_label_needs(tmp_path: Path) -> None:
    words = features(tmp_path / "words.features", poolings=("word",))
    with pytest.raises(NotDerivableError, match="none of any pooling; extract with pooling='mean'"):
        probe_layers(words, "kind")
    documents = features(tmp_path / "documents.features", poolings=("mean",))
    with pytest.raises(NotDerivableError, match="extract with pooling='word'"):
        probe_layers(documents, "tags")
    both = features(tmp_path / "both.features", poolings=("mean", "cls"))
    with pytest.raises(UsageError, match="say which vectors with pooling: mean or cls"):
        probe_layers(both, "kind")
    assert probe_layers(both, "kind", ProbeSettings("cls", layers=("last",))).pooling == "cls"
    plain = toy_set(tmp_path / "plain.features", toy_part(poolings=("word",)))
    with pytest.raises(UsageError, match="its words have no tags"):
        probe_layers(FeatureSet(plain), "tags")


# ── on the command line, and as a picture ───────────────────────────────────────────────────────────────────


def test_probed_printed_read_and_drawn(toy: FeatureSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = CliRunner().invoke(main, ["probe", str(toy.folder), "--label", "kind"])
    assert shown.exit_code == 0, shown.output
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert lines[0] == "kind: 2 classes, 65 of 65 labeled documents, 5 folds, mean vectors"
    assert lines[3].startswith("baseline 0.")
    assert [line.split()[0] for line in lines[4:]] == COLUMNS
    assert [line.endswith(" best") for line in lines[4:]].index(True) == TELLING
    assert shown.stderr == "6 documents without kind left out\n"
    file = tmp_path / "kind.json"
    file.write_text(CliRunner().invoke(main, ["probe", str(toy.folder), "--label", "kind", "--json"]).stdout)
    assert read_probes(file) == [probe_layers(toy, "kind")]
    monkeypatch.chdir(tmp_path)
    drawn = CliRunner().invoke(main, ["plot", "layers", str(file), "--json"])
    assert json.loads(drawn.stdout) == {"path": "kind.layers.png", "probes": 1, "columns": COLUMNS}
    assert Path("kind.layers.png").read_bytes().startswith(b"\x89PNG")
