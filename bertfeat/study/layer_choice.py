"""The choice of a model's layers for a task: a sample is read by every layer, and by every run of four.

What is learned is read by ridge regression on the classes, cross-validated; what is compared, by cosines. The smallest
choice is taken that is within one standard error of the best (Breiman et al. 1984, section 3.4.3), by resamples of
documents, usages or queries.
"""

import json
import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.core import (
    CorpusSettings,
    Document,
    Extractor,
    ExtractorSettings,
    FeatureSet,
    Operation,
    Pooling,
    check_readable,
    memory_corpus,
    open_corpus,
    parse_poolings,
    parse_recipes,
    unit_vectors,
)
from bertfeat.display import Cells, displayed
from bertfeat.errors import CorpusError, UsageError, needed_library, parameter
from bertfeat.progress import OnStep, ProgressOption, StepProgress, telling
from bertfeat.search import BeirFolder, Interval, QueryResamples, evaluate_layers, read_beir, unmark_words
from bertfeat.study.probe_examples import (
    Examples,
    LabelColumn,
    check_classes,
    read_document_labels,
    read_word_labels,
    sample_examples,
)
from bertfeat.study.probing import Folds, example_vectors, make_folds

_READ_DOCUMENTS = 50_000  # from which examples are drawn
_MOST_QUERIES = 200
_FOLDS = 3
_PENALTY = 0.02  # of the squared weights, for each example: standardized inputs need little
_RUN = 4  # layers of a run
_MOST_STORED = 8_000  # examples of a stored set


class LayerTask(StrEnum):
    """A task for which layers are chosen."""

    TAGS = "tags"  # of words
    LABELS = "labels"  # of texts
    PAIRS = "pairs"  # labels of two texts, each embedded by itself
    SEARCH = "search"  # queries with judged documents
    SENSES = "senses"  # usages of words, marked with stars, with a label for the sense

    @property
    def is_of_words(self) -> bool:
        """Whether vectors of words are read; else those of texts."""
        return self in (LayerTask.TAGS, LayerTask.SENSES)

    @property
    def is_learned(self) -> bool:
        """Whether a classifier reads the vectors; else they are compared by cosines."""
        return self in (LayerTask.TAGS, LayerTask.LABELS, LayerTask.PAIRS)


_CHARACTERS = {  # of the examples of a task, about: of tags every word has a vector, of senses one in a text
    LayerTask.TAGS: 35_000,
    LayerTask.LABELS: 100_000,
    LayerTask.PAIRS: 100_000,
    LayerTask.SEARCH: 400_000,
    LayerTask.SENSES: 250_000,
}
MEASURES = {
    LayerTask.TAGS: "macro F1",
    LayerTask.LABELS: "macro F1",
    LayerTask.PAIRS: "macro F1",
    LayerTask.SEARCH: "nDCG@10",
    LayerTask.SENSES: "average precision",
}


@dataclass(frozen=True, slots=True)
class LayerTrial:
    """A choice of layers, and how well the task is read from them."""

    layers: str  # as ``--layers`` has them
    width: int  # values of a vector
    score: float
    behind: Interval  # its difference from the best choice, over the same resamples

    @property
    def error(self) -> float:
        """The standard error of that difference."""
        return (self.behind.high - self.behind.low) / (2 * 1.96)


@displayed
@dataclass(frozen=True, slots=True)
class ChosenLayers:
    """The layers that were chosen for a task, with the scores of all choices."""

    model: str
    task: str
    measure: str
    examples: int  # words, texts, pairs, usages or queries
    trials: tuple[LayerTrial, ...]
    seconds: float

    @property
    def chosen(self) -> LayerTrial:
        """The smallest choice within one standard error of the best; of equally small ones the best."""
        near = [trial for trial in self.trials if trial.behind.value + trial.error >= 0]
        return min(near, key=lambda trial: (trial.width, -trial.score))

    @property
    def layers(self) -> str:
        """The chosen layers, as ``Extractor(layers=…)`` takes them."""
        return self.chosen.layers

    def cells(self) -> Cells:
        """The facts that a line or a table shows of the choice."""
        scores = {trial.layers: trial.score for trial in self.trials}
        return {"layers": self.layers, "model": self.model, "task": self.task, self.measure: scores}

    def to_json(self) -> dict[str, object]:
        """The choice as JSON values."""
        trials = [
            {"layers": each.layers, "width": each.width, "score": round(each.score, 4), "behind": asdict(each.behind)}
            for each in self.trials
        ]
        about = {"layers": self.layers, "model": self.model, "task": self.task, "measure": self.measure}
        return {**about, "examples": self.examples, "seconds": round(self.seconds, 1), "trials": trials}


@checked
def choose_layers(
    extractor: Extractor,
    examples: str | Path,
    task: LayerTask | str,
    *,
    layers: str | Sequence[str] | None = None,
    label: str = "label",
    corpus_settings: CorpusSettings | None = None,
    progress: ProgressOption[StepProgress] = None,
) -> ChosenLayers:
    """Choose the layers of a model for a task by a small sample of examples of it.

    ``examples`` are a corpus of words with tags (``tags``), of texts with a kept column ``label`` (``labels``), of
    pairs with one (``pairs``), of texts whose word is marked with stars, with one for its sense (``senses``), or a
    BEIR folder with ``corpus.jsonl`` (``search``). Some hundred of them, drawn at random, are embedded with all layers.
    ``extractor`` says the model, how it computes, and the pooling (of tags and senses that of words). ``layers`` are
    those to compare, by default every single layer and every run of four: its sum and, for what is learned, its
    concatenation.

    Raises:
        UsageError: an unknown task, or examples that have no tags, labels or marked words.
        CorpusError: the examples cannot be read.
        MissingLibraryError: scikit-learn is not installed.
    """
    begun, wanted, asked = time.perf_counter(), as_layer_task(task), extractor.given
    with needed_library("a choice of layers needs scikit-learn", "bertfeat[analysis]"):
        import sklearn  # noqa: F401
    reading = replace(corpus_settings or CorpusSettings(), keep=(), metadata=None, split=None)
    drawn = [] if wanted is LayerTask.SEARCH else _draw_examples(examples, wanted, label, reading)
    usages = _unmark(drawn) if wanted is LayerTask.SENSES else []
    opened = _open_extractor(
        replace(asked, layers=_stored_layers(layers, extractor.model.num_layers)),
        by_word=wanted.is_of_words,
        only={usage.word for usage in usages},
    )
    choices = _list_choices(layers, opened, learned=wanted.is_learned)
    with telling(progress) as tell, TemporaryDirectory(prefix="bertfeat-layers-") as work:
        trying = _Trying(opened, choices, Path(work), tell)
        if wanted is LayerTask.SEARCH:
            count, trials = _try_search(Path(examples), reading, trying)
        elif wanted is LayerTask.SENSES:
            count, trials = _try_senses(usages, trying)
        elif wanted is LayerTask.PAIRS:
            count, trials = _try_pairs(drawn, label, trying)
        else:
            count, trials = _try_labels(drawn, label, trying, by_word=wanted.is_of_words)
    return ChosenLayers(opened.identity.name, str(wanted), MEASURES[wanted], count, trials, time.perf_counter() - begun)


@checked
def choose_stored_layers(
    sets: FeatureSet | Sequence[FeatureSet],
    task: LayerTask | str,
    layers: str | Sequence[str],
    pooling: str,
    *,
    label: str = "label",
    progress: ProgressOption[StepProgress] = None,
) -> ChosenLayers:
    """Choose among layers that a feature set holds, or contains, for tags, labels or pairs, as :func:`choose_layers`.

    Of pairs that are embedded apart ``sets`` are two, of the first texts, with the label, and of the second ones.

    Raises:
        UsageError: another task, or too few examples of a label.
        NotDerivableError: the set does not hold the layers under the ``pooling``.
        MissingLibraryError: scikit-learn is not installed.
    """
    begun, wanted = time.perf_counter(), as_layer_task(task)
    if not wanted.is_learned:
        raise UsageError("stored layers are chosen for what is learned", where=str(wanted), remedy="name one of them")
    with needed_library("a choice of layers needs scikit-learn", "bertfeat[analysis]"):
        import sklearn  # noqa: F401
    sides = [sets] if isinstance(sets, FeatureSet) else [*sets]
    if len(sides) != 1 + (wanted is LayerTask.PAIRS and not isinstance(sets, FeatureSet)):
        raise UsageError(
            f"{wanted} are read from one set, or pairs that are apart from two", where=f"{len(sides)} sets"
        )
    first, by_word = sides[0], wanted.is_of_words
    if len({tuple(_row_numbers_of(each)) for each in sides}) > 1:
        raise UsageError(
            f"{sides[0].folder} and {sides[1].folder} do not hold the same rows",
            remedy="a row that failed in one is listed there; correct it in the corpus and extract both again",
        )
    labels = read_word_labels(first) if by_word else read_document_labels(first, label)
    examples = sample_examples(labels, _MOST_STORED, _FOLDS, seed=1)
    reader = _Reader.of(examples, "tags" if by_word else label, by_word=by_word)
    choices = [
        _Choice(each.spelling, each.name, first.find(each.name, pooling).width)
        for each in parse_recipes(layers, first.header.model.num_layers)
    ]

    def resampled(name: str) -> NDArray[np.float64]:
        return reader.resampled(_beside([example_vectors(each, each.find(name), examples) for each in sides]))

    with telling(progress) as tell:
        trials = _try_each(choices, pooling, resampled, tell)
    seconds = time.perf_counter() - begun
    return ChosenLayers(first.header.model.name, str(wanted), MEASURES[wanted], len(examples.rows), trials, seconds)


def _row_numbers_of(features: FeatureSet) -> Iterator[int]:
    for batch in features.stream(["row"]):
        yield from batch.column("row").to_pylist()


def as_layer_task(task: LayerTask | str) -> LayerTask:
    """The task of that name.

    Raises:
        UsageError: there is none.
    """
    try:
        return LayerTask(task)
    except ValueError as error:
        raise UsageError(
            "layers are not chosen for this", where=repr(str(task)), remedy=f"there are: {', '.join(LayerTask)}"
        ) from error


# ── what is compared ────────────────────────────────────────────────────────────────────────────────────────


class _Choice(NamedTuple):
    layers: str  # as --layers has them
    recipe: str
    width: int


@dataclass(frozen=True, slots=True)
class _Trying:
    """A model with all its layers, the choices that are tried, and where features of a sample are put."""

    extractor: Extractor
    choices: Sequence[_Choice]
    work: Path
    tell: OnStep

    @property
    def pooling(self) -> Pooling:
        """The pooling of the vectors that are read."""
        return self.extractor.columns[0].pooling

    def extract(self, documents: Sequence[Document], kept: Sequence[str] = ()) -> FeatureSet:
        """The features of some documents."""
        settings = CorpusSettings(keep=tuple(f"{name}:string" for name in kept))
        self.extractor.extract(memory_corpus(documents, settings), self.work / "sample", progress=False)
        return FeatureSet(self.work / "sample")

    def each(self, resampled: Callable[[str], NDArray[np.float64]]) -> tuple[LayerTrial, ...]:
        """A trial of each choice, whose scores ``[R+1]`` are the plain one and those of resamples."""
        return _try_each(self.choices, self.pooling, resampled, self.tell)


def _try_each(
    choices: Sequence[_Choice], pooling: str, resampled: Callable[[str], NDArray[np.float64]], tell: OnStep
) -> tuple[LayerTrial, ...]:
    scores = []
    for at, choice in enumerate(choices):
        scores.append(resampled(f"{choice.recipe}_{pooling}"))
        tell(StepProgress("", at + 1, len(choices), "choices of layers"))
    best = max(scores, key=lambda values: float(values[0]))
    return tuple(
        LayerTrial(
            choice.layers,
            choice.width,
            float(values[0]),
            Interval.of(float(values[0] - best[0]), values[1:] - best[1:]),
        )
        for choice, values in zip(choices, scores, strict=True)
    )


def _stored_layers(given: str | Sequence[str] | None, num_layers: int) -> tuple[str, ...]:
    """The specifications that all choices can be read from: every layer, and what is asked for within blocks."""
    recipes = () if given is None else parse_recipes(given, num_layers)
    return "all", *(recipe.spec for recipe in recipes if recipe.within_blocks)


def _open_extractor(asked: ExtractorSettings, *, by_word: bool, only: Collection[str]) -> Extractor:
    """An extractor of layers: of words, or only of some, or by the first pooling that gives one vector a text."""
    pooling: str | None = str(Pooling.WORD) if by_word else None
    if not by_word and asked.pooling is not None:
        named = parse_poolings(asked.pooling, lambda: Pooling.MEAN)
        usable = [each for each in named if each.per_document and each is not Pooling.SENTENCE]
        if not usable:
            problem = "this task reads vectors of texts, and no pooling of these gives one of each layer"
            raise UsageError(problem, where=parameter("pooling", asked.pooling), remedy="name mean, too")
        pooling = str(usable[0])
    every = replace(asked, pooling=pooling, dtype="float16", only=tuple(sorted(only)) or None)
    return Extractor(**asdict(every))


def _list_choices(given: str | Sequence[str] | None, extractor: Extractor, *, learned: bool) -> list[_Choice]:
    last = extractor.model.num_layers
    summed = extractor.columns[0].pooling.linear  # else a sum of layers cannot be pooled afterwards
    combined = [Operation.SUM] * summed + [Operation.CONCAT] * learned
    runs = [f"={first}..{first + _RUN - 1}" for first in range(1, last - _RUN + 1)] + ["4"] * (last >= _RUN)
    usual = [*map(str, range(last + 1)), *(f"{operation}{run}" for operation in combined for run in runs)]
    recipes = parse_recipes(usual if given is None else given, last)
    return [_Choice(each.spelling, each.name, each.width(extractor.model.width_at(each.site))) for each in recipes]


def _resample(units: int) -> NDArray[np.float64]:
    """The share of each unit, ``[R+1, U]``: first in the sample as it is, then in each resample."""
    return np.concatenate([np.full((1, units), 1 / units), QueryResamples(units, seed=1).weights])


# ── examples ────────────────────────────────────────────────────────────────────────────────────────────────


def _draw_examples(examples: str | Path, task: LayerTask, label: str, reading: CorpusSettings) -> list[Document]:
    """Some examples of a corpus, drawn at random, with their label as the only kept value."""
    labeled = task is not LayerTask.TAGS
    corpus = open_corpus(str(examples), replace(reading, keep=(label,) if labeled else ()))
    if task is LayerTask.TAGS and not corpus.has_tags:
        raise UsageError("its words have no tags", where=examples, remedy=f"give CoNLL, or {parameter('tag_column')}")
    if (task is LayerTask.PAIRS) != corpus.has_pairs:
        problem = "these are pairs of texts" if corpus.has_pairs else "these are no pairs of texts"
        remedy = "choose for pairs" if corpus.has_pairs else f"name the second with {parameter('pair_column')}"
        raise UsageError(problem, where=examples, remedy=remedy)
    rows = islice(check_readable(corpus.rows(), corpus), _READ_DOCUMENTS)
    found = [row for row in rows if isinstance(row, Document)]
    if labeled:
        found = [replace(each, kept=(str(each.kept[0]),)) for each in found if each.kept[0] is not None]
    if not found:
        raise CorpusError(f"there are no examples of {task} in it", where=examples)
    random.Random(1).shuffle(found)
    return list(_of_size(found, _CHARACTERS[task]))


def _of_size(documents: Sequence[Document], characters: int) -> Iterator[Document]:
    """The first documents, up to that with which they have so many characters."""
    read = 0
    for document in documents:
        if read >= characters:
            return
        read += len(document.text) + len(document.pair or "")
        yield document


def _try_labels(
    documents: Sequence[Document], label: str, trying: _Trying, *, by_word: bool
) -> tuple[int, tuple[LayerTrial, ...]]:
    features = trying.extract(documents, [] if by_word else [label])
    labels = read_word_labels(features) if by_word else read_document_labels(features, label)
    examples = sample_examples(labels, len(labels.numbers), _FOLDS, seed=1)
    reader = _Reader.of(examples, label, by_word=by_word)
    found = trying.each(lambda name: reader.resampled(example_vectors(features, features.find(name), examples)))
    return len(examples.rows), found


def _try_pairs(documents: Sequence[Document], label: str, trying: _Trying) -> tuple[int, tuple[LayerTrial, ...]]:
    texts = [text for each in documents for text in (each.text, each.pair or "")]
    features = trying.extract([Document(row, str(row), text) for row, text in enumerate(texts)])
    count = len(documents)
    names, numbers = np.unique([str(each.kept[0]) for each in documents], return_inverse=True)
    labels = LabelColumn(tuple(names.tolist()), numbers.astype(np.int32), np.arange(count), np.ones(count, bool))
    examples = sample_examples(labels, count, _FOLDS, seed=1)
    reader = _Reader.of(examples, label, by_word=False)

    def resampled(name: str) -> NDArray[np.float64]:
        both = np.concatenate([batch.matrix for batch in features.batches(features.find(name).name)])
        return reader.resampled(_beside([both[::2][examples.chosen], both[1::2][examples.chosen]]))

    return len(examples.rows), trying.each(resampled)


def _beside(sides: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The vectors of single texts; of pairs both, their distance and their product. Shape: ``[n, W]`` → ``[n, 4W]``."""
    if len(sides) == 1:
        return sides[0]
    first, second = sides
    return np.hstack([first, second, np.abs(first - second), first * second])


@dataclass(frozen=True, slots=True)
class _Reader:
    """A linear classifier of examples, cross-validated."""

    examples: Examples
    folds: Folds
    units: NDArray[np.int64]  # [n] the document of each example, from 0
    weights: NDArray[np.float64]  # [R+1, U]

    @classmethod
    def of(cls, examples: Examples, label: str, *, by_word: bool) -> "_Reader":
        """The reader of some examples; a class has to be in as many documents as there are folds."""
        check_classes(examples, label, _FOLDS)
        units = np.unique(examples.rows, return_inverse=True)[1].astype(np.int64)
        return cls(examples, make_folds(examples, by_word, _FOLDS, 1), units, _resample(int(units.max()) + 1))

    def resampled(self, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """The macro F1 by vectors ``[n, W]``, as it is and of each resample of documents: ``[R+1]``."""
        from sklearn.linear_model import RidgeClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        gold, predicted = self.examples.members, np.empty(len(vectors), np.int64)
        for train, test in self.folds:
            classifier = make_pipeline(StandardScaler(), RidgeClassifier(alpha=_PENALTY * len(train)))
            predicted[test] = classifier.fit(vectors[train], gold[train]).predict(vectors[test])
        hit, said, right = (
            self.weights @ self._counts(members, chosen)
            for members, chosen in ((gold, predicted == gold), (predicted, None), (gold, None))
        )
        with np.errstate(invalid="ignore"):  # a class that is in no document of a resample
            scores: NDArray[np.float64] = np.nanmean(2 * hit / (said + right), axis=1)
        return scores

    def _counts(self, members: NDArray[np.int64], chosen: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """The number of examples of each class in each document: ``[U, C]``."""
        units, classes = self.weights.shape[1], len(self.examples.classes)
        places = self.units * classes + members
        places = places if chosen is None else places[chosen]
        return np.bincount(places, minlength=units * classes).reshape(units, classes)


# ── usages of words, and search ─────────────────────────────────────────────────────────────────────────────


class _MarkedUsage(NamedTuple):
    """A usage of a word, whose sense is known."""

    text: str
    start: int  # characters of the word
    end: int
    sense: str

    @property
    def word(self) -> str:
        """The word, whatever its case."""
        return self.text[self.start : self.end].casefold()


def _unmark(documents: Sequence[Document]) -> list[_MarkedUsage]:
    usages = []
    for document in documents:
        text, spans = unmark_words(document.text)
        if len(spans) != 1:
            problem = f"the text {document.id!r} has {len(spans)} marked words"
            raise UsageError(problem, remedy="mark the word of which the sense is known: He sat on the *bank*.")
        usages.append(_MarkedUsage(text, *spans[0], str(document.kept[0])))
    return usages


def _try_senses(usages: Sequence[_MarkedUsage], trying: _Trying) -> tuple[int, tuple[LayerTrial, ...]]:
    """Each usage asks for those of its sense among all of its word, by cosines."""
    features = trying.extract([Document(row, str(row), usage.text) for row, usage in enumerate(usages)])
    examples = _marked_words(features, usages)
    queries = _usage_queries([usages[row] for row in examples.rows.tolist()])
    if not queries:
        raise UsageError("no word has several usages of one sense and one of another", remedy="give more usages")
    weights = _resample(len(queries))

    def resampled(name: str) -> NDArray[np.float64]:
        from sklearn.metrics import average_precision_score

        units = unit_vectors(example_vectors(features, features.find(name), examples))
        found = [average_precision_score(same, units[others] @ units[at]) for at, others, same in queries]
        scores: NDArray[np.float64] = weights @ np.array(found)
        return scores

    return len(queries), trying.each(resampled)


def _marked_words(features: FeatureSet, usages: Sequence[_MarkedUsage]) -> Examples:
    """The words that are meant in the texts, without those that have no vector."""
    masks, rows = [np.empty(0, np.bool_)], list[int]()
    for document, usage in zip(features.documents([features.columns[0].name]), usages, strict=True):
        pieces = document.words
        assert pieces is not None
        found = np.flatnonzero((pieces.start < usage.end) & (pieces.end > usage.start) & (pieces.end > pieces.start))
        masks.append(np.isin(np.arange(len(pieces.start)), found[:1]))
        rows += [document.row] * bool(len(found))
    return Examples(np.concatenate(masks), (), np.zeros(len(rows), np.int64), np.array(rows, np.int64), 0)


def _usage_queries(usages: Sequence[_MarkedUsage]) -> list[tuple[int, list[int], list[bool]]]:
    """Each usage of which the word has others of its sense and of another, with these and whether they are of its."""
    queries = []
    for at, usage in enumerate(usages):
        others = [other for other, each in enumerate(usages) if each.word == usage.word and other != at]
        same = [usages[other].sense == usage.sense for other in others]
        if any(same) and not all(same):
            queries.append((at, others, same))
    return queries


def _try_search(folder: Path, reading: CorpusSettings, trying: _Trying) -> tuple[int, tuple[LayerTrial, ...]]:
    """Queries, drawn at random, look for their documents among these and others."""
    data = read_beir(folder)
    names = list(data.queries)
    random.Random(1).shuffle(names)
    relevant = {
        name: [each for each, grade in data.judgments[name].items() if grade > 0] for name in names[:_MOST_QUERIES]
    }
    found, others = _read_searched(
        folder / "corpus.jsonl", reading, {each for own in relevant.values() for each in own}
    )
    chosen, characters, asked = dict[str, Document](), 0, list[str]()
    for name, judged in relevant.items():
        new = {each: found[each] for each in judged if each in found and each not in chosen}
        characters += sum(len(each.text) for each in new.values())
        if asked and characters > _CHARACTERS[LayerTask.SEARCH] * 3 // 4:
            break
        chosen |= new
        asked.append(name)
    rest = _of_size(others, _CHARACTERS[LayerTask.SEARCH] - characters)
    features = trying.extract([replace(each, kept=()) for each in (*chosen.values(), *rest)])
    part = _write_beir(trying.work / "beir", asked, data)
    table = evaluate_layers(
        features, part, layers=[each.layers for each in trying.choices], pooling=str(trying.pooling)
    )
    key = table.ranked_by.key
    widths = {f"{each.recipe}_{trying.pooling}": each for each in trying.choices}
    trials = [
        LayerTrial(widths[row.column].layers, row.width, row.scores[key].value, row.difference) for row in table.rows
    ]
    return len(asked), tuple(trials)


def _read_searched(
    path: Path, reading: CorpusSettings, wanted: Collection[str]
) -> tuple[dict[str, Document], list[Document]]:
    """The documents of a corpus with the wanted ids, and others in random order."""
    found, others = dict[str, Document](), list[Document]()
    corpus = open_corpus(str(path), reading)
    for row in check_readable(corpus.rows(), corpus):
        if isinstance(row, Document) and row.id in wanted:
            found[row.id] = row
        elif isinstance(row, Document) and len(others) < _READ_DOCUMENTS:
            others.append(row)
    random.Random(1).shuffle(others)
    return found, others


def _write_beir(folder: Path, queries: Sequence[str], data: BeirFolder) -> Path:
    """Write some queries and their judgments as a BEIR folder."""
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": name, "text": data.queries[name]}) for name in queries]
    (folder / "queries.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    judged = [f"{name}\t{each}\t{grade}" for name in queries for each, grade in data.judgments[name].items()]
    (folder / "qrels/test.tsv").write_text("".join(f"{line}\n" for line in judged), "utf-8")
    return folder
