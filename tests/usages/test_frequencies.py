"""Word lists and keywords: counted by going through every text, and scored as SciPy scores a table."""

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result
from scipy.stats import chi2_contingency

from bertfeat import CorpusSettings, FeatureSet, count_words, find_keywords
from bertfeat.cli import main
from bertfeat.core.corpus import memory_corpus
from bertfeat.core.words import is_word, split_words
from bertfeat.errors import FeatureSetError, UsageError
from bertfeat.usages import Keyword, WordFrequency, find_collocates
from tests.support.runs import extractor
from tests.support.tiny_models import Tiny

VOCABULARY = ("bank", "Bank", "river", "the", "of", "money", "old", "mill", ",", ".", "don't", "river-bank")
TITLES = ("A", "B", "C", "D", None)


def random_texts(seed: int = 3, number: int = 60) -> list[dict[str, Any]]:
    """Texts of few words, with a title that some lack."""
    random = Random(seed)
    return [
        {
            "text": " ".join(random.choices(VOCABULARY, k=random.randrange(1, 14))),
            "year": 1850 + row,
            "title": random.choice(TITLES),
        }
        for row in range(number)
    ]


def make_set(folder: Path, tiny: Callable[[str], Tiny], texts: Sequence[dict[str, Any]], **settings: Any) -> FeatureSet:
    """A set with one vector a text: lists of words need no vectors of words."""
    reading = CorpusSettings(keep=("year", "title"))
    made = extractor(tiny("bert"), layers="last", pooling="mean")
    made.extract(memory_corpus(texts, reading), folder, part_rows=20, **settings)
    return FeatureSet(folder)


@pytest.fixture(scope="module")
def made(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    return make_set(tmp_path_factory.mktemp("words") / "c.features", tiny, random_texts())


@pytest.fixture(scope="module")
def other(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    return make_set(tmp_path_factory.mktemp("words") / "o.features", tiny, random_texts(5, 30))


def tokens_of(text: str) -> list[tuple[str, bool]]:
    """All words and marks of a text without case, and whether each follows on white space."""
    spans = split_words(text)
    starts, ends = spans.start.tolist(), spans.end.tolist()
    return [
        (text[start:end].lower(), at > 0 and ends[at - 1] < start)
        for at, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def rows_of_words(text: str, length: int) -> Iterator[str]:
    """The rows of so many words that nothing but white space is between."""
    tokens = tokens_of(text)
    for at in range(len(tokens) - length + 1):
        row = tokens[at : at + length]
        if all(is_word(word) for word, _ in row) and all(spaced for _, spaced in row[1:]):
            yield " ".join(word for word, _ in row)


def words_in(text: str) -> int:
    return sum(is_word(word) for word, _ in tokens_of(text))


def deviation_of(counts: Sequence[int], sizes: Sequence[int]) -> float:
    """Gries's DP, part by part."""
    return sum(abs(count / sum(counts) - size / sum(sizes)) for count, size in zip(counts, sizes, strict=True)) / 2


# ── word lists ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("length", [1, 2, 3])
def test_counts_and_dispersion_over_documents(length: int, made: FeatureSet) -> None:
    texts = [text["text"] for text in random_texts()]
    each = [Counter(rows_of_words(text, length)) for text in texts]
    whole = sum(each, Counter[str]())
    found = count_words(made, ngrams=length, k=10_000)
    assert count_words(made, " ".join(["*"] * length), k=10_000) == found
    assert (found.documents, found.words) == (len(texts), sum(map(words_in, texts)))
    assert (found.found, found.different, found.slices) == (whole.total(), len(whole), ())
    assert [one.word for one in found.frequencies] == sorted(whole, key=lambda word: (-whole[word], word))
    for one in found.frequencies:
        counts = [count[one.word] for count in each]
        assert (one.found, one.documents) == (sum(counts), sum(map(bool, counts)))
        assert one.range == one.documents
        assert one.per_million == pytest.approx(1e6 * one.found / found.words, abs=0.01)
        assert one.dispersion == pytest.approx(deviation_of(counts, list(map(words_in, texts))), abs=1e-4)


@pytest.mark.parametrize(
    ("by", "slices", "bounds"),
    [
        ("title", None, {name: (name,) for name in TITLES[:4]}),
        ("title", "C,A", {"C": ("C",), "A": ("A",)}),
        ("year", None, {str(year): (year,) for year in range(1850, 1910)}),
        ("year", "every:20", {f"{year}-{year + 19}": range(year, year + 20) for year in (1840, 1860, 1880, 1900)}),
    ],
)
def test_counts_and_dispersion_over_slices(
    by: str, slices: str | None, bounds: dict[str, Sequence[Any]], made: FeatureSet
) -> None:
    rows = [row for row in random_texts() if row["year"] >= 1855]
    if slices is None:
        bounds = {name: values for name, values in bounds.items() if any(row[by] in values for row in rows)}
    members = [[row["text"] for row in rows if row[by] in values] for values in bounds.values()]
    sizes = [sum(map(words_in, texts)) for texts in members]
    found = count_words(made, by=by, slices=slices, where="year >= 1855", k=10_000)
    assert [one.name for one in found.slices] == list(bounds)
    assert [one.documents for one in found.slices] == list(map(len, members))
    assert (list(found.slice_words), found.words, found.documents) == (sizes, sum(sizes), sum(map(len, members)))
    for one in found.frequencies:
        each = [[Counter(rows_of_words(text, 1))[one.word] for text in texts] for texts in members]
        counts = list(map(sum, each))
        assert (list(one.by_slice), one.found) == (counts, sum(counts))
        assert (one.range, one.documents) == (
            sum(map(bool, counts)),
            sum(map(bool, chain.from_iterable(each))),
        )
        assert one.dispersion == pytest.approx(deviation_of(counts, sizes), abs=1e-4)


def test_words_of_a_pattern(made: FeatureSet) -> None:
    whole = Counter(word for row in random_texts() for word, _ in tokens_of(row["text"]))
    found = count_words(made, "ban*|of", k=99)
    assert {one.word: one.found for one in found.frequencies} == {word: whole[word] for word in ("bank", "of")}
    assert found.words == sum(words_in(row["text"]) for row in random_texts())
    marks = count_words(made, '[word!="zebra"]', k=99)
    assert {one.word: one.found for one in marks.frequencies} == dict(whole)
    assert {one.word for one in count_words(made, "don't|river-bank|of").frequencies} == {"don't", "river-bank", "of"}
    least = count_words(made, least=whole["mill"] + 1, k=99)
    assert {one.word for one in least.frequencies} == {
        word for word, count in whole.items() if is_word(word) and count > whole["mill"]
    }
    assert len(count_words(made, k=3).frequencies) == 3
    nowhere = count_words(made, "zebra")
    assert (nowhere.found, nowhere.different, nowhere.frequencies) == (0, 0, ())


def test_matches_of_several_lengths(made: FeatureSet) -> None:
    """Rows of different lengths are different, though one begins as the other."""
    found = count_words(made, "the []{0,1} bank", k=99)
    expected = Counter[str]()
    for row in random_texts():
        tokens = tokens_of(row["text"])
        words = [word for word, _ in tokens]
        taken = set[int]()
        for at in range(len(words)):
            ends = [stop for stop in (at + 1, at + 2) if stop < len(words) and words[stop] == "bank"]
            if words[at] == "the" and ends and ends[0] not in taken:
                taken.add(ends[0])
                expected[
                    "".join(
                        " " * (spaced and more > 0) + word
                        for more, (word, spaced) in enumerate(tokens[at : ends[0] + 1])
                    )
                ] += 1
    assert {one.word: one.found for one in found.frequencies} == dict(expected)


def test_tags(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    records = [{"text": ["Go", "on", "going", "."], "tags": ["V", "P", "V", "X"]}, {"text": ["on"], "tags": ["P"]}]
    reading = CorpusSettings(pretokenized=True, tag_column="tags")
    made = extractor(tiny("bert"), layers="last", pooling="word")
    made.extract(memory_corpus(records, reading), tmp_path / "t")
    found = count_words(tmp_path / "t", attribute="tag")
    assert [(one.word, one.found, one.documents) for one in found.frequencies] == [("P", 2, 2), ("V", 2, 1)]
    pairs = count_words(tmp_path / "t", "* *", attribute="tag")
    assert [(one.word, one.found) for one in pairs.frequencies] == [("P V", 1), ("V P", 1)]
    assert [one.word for one in count_words(tmp_path / "t", '[tag="V"]').frequencies] == ["go", "going"]


# ── keywords ────────────────────────────────────────────────────────────────────────────────────────────────


def check_keywords(found: Any, own: Sequence[str], others: Sequence[str], length: int = 1) -> None:
    """Whether keywords of some texts against others are those of SciPy's tables."""
    counts, there = (
        sum((Counter(rows_of_words(text, length)) for text in texts), Counter[str]()) for texts in (own, others)
    )
    whole, whole_there = sum(map(words_in, own)), sum(map(words_in, others))
    assert (found.words, found.reference_words) == (whole, whole_there)
    expected = {}
    for word, count in counts.items():
        ratio = math.log2((count / whole) / ((there[word] or 0.5) / whole_there))
        if count >= 2 and ratio > 0:
            table = [[count, there[word]], [whole - count, whole_there - there[word]]]
            expected[word] = (chi2_contingency(table, correction=False, lambda_="log-likelihood").statistic, ratio)
    assert {one.word for one in found.frequencies} == set(expected) != set()
    for one in found.frequencies:
        assert (one.found, one.reference_found) == (counts[one.word], there[one.word])
        assert one.reference_per_million == pytest.approx(1e6 * there[one.word] / whole_there, abs=0.01)
        assert one.log_likelihood == pytest.approx(expected[one.word][0], abs=0.006)
        assert one.log_ratio == pytest.approx(expected[one.word][1], abs=0.006)
    scores = [one.log_likelihood if found.measure == "log-likelihood" else one.log_ratio for one in found.frequencies]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("measure", ["log-likelihood", "log-ratio"])
@pytest.mark.parametrize("length", [1, 2])
def test_keywords_against_another_set(measure: str, length: int, made: FeatureSet, other: FeatureSet) -> None:
    own, others = ([row["text"] for row in random_texts(*seed)] for seed in ((3, 60), (5, 30)))
    pattern = " ".join(["*"] * length)
    for reference in (other, other.folder, str(other.folder)):
        found = find_keywords(made, reference, pattern, measure=measure, least=2, k=999)
        check_keywords(found, own, others, length)
        assert (found.reference_documents, found.against) == (30, str(other.folder))


def test_keywords_of_a_part(made: FeatureSet) -> None:
    rows = random_texts()
    early, late = ([row["text"] for row in rows if (row["year"] < 1870) is is_early] for is_early in (True, False))
    rest = find_keywords(made, "rest", where="year < 1870", least=2, k=999)
    check_keywords(rest, early, late)
    condition = find_keywords(made, "year >= 1870", where="year < 1870", least=2, k=999)
    assert condition.frequencies == rest.frequencies
    assert (condition.against, rest.against) == ("year >= 1870", "rest")
    titles = find_keywords(made, "title = 'B'", where="title = 'A'", by="year", least=2, k=999)
    own, others = ([row["text"] for row in rows if row["title"] == title] for title in "AB")
    check_keywords(titles, own, others)
    assert titles.slices
    assert all(sum(one.by_slice) == one.found for one in titles.frequencies)


def test_a_set_is_not_compared_with_itself(made: FeatureSet, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(Path(str(made.folder)))
    for where in (None, "year < 1870"):
        for folder in (made.folder, link):
            with pytest.raises(UsageError, match=r"it is the set that is compared; (give where, and )?write rest"):
                find_keywords(made, folder, where=where)


# ── what cannot be ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"word": ""}, "the word to look for is empty"),
        ({"word": "[lemma='go']"}, "tokens have no lemma"),
        ({"attribute": "lemma"}, "must be one of 'word', 'tag'"),
        ({"attribute": "tag"}, "attribute='tag' asks for tags, and the words of the set have none"),
        ({"by": "titel"}, "there is no kept column 'titel'; there are: year, title; did you mean title"),
        ({"slices": "2"}, "name it: by='year'"),
        ({"by": "year", "slices": "9-1"}, "ends before it begins"),
        ({"where": "yaer > 3"}, "no column 'yaer'"),
        ({"least": 0}, "at least 1"),
        ({"k": 0}, "at least 1"),
    ],
)
def test_lists_that_cannot_be(options: dict[str, Any], problem: str, made: FeatureSet) -> None:
    with pytest.raises(UsageError, match=problem):
        count_words(made, **options)
    with pytest.raises(UsageError, match=problem):
        find_keywords(made, "year > 1900", **{"where": "year < 1870"} | options)


@pytest.mark.parametrize(
    ("against", "where", "problem"),
    [
        ("rest", None, "against='rest': .*there is none; say with where"),
        ("", "year < 3", "against='': is no path: it is empty"),
        ("year > 1855", "year < 1860", "against='year > 1855': 4 documents that are compared meet it, too; write rest"),
        ("year > 1855", None, "54 documents that are compared meet it, too; say with where which documents"),
        ("  ", "year < 3", "against='  ': no feature set, and as a condition: the reference is empty"),
        ("yaer > 1855", "year < 3", "against='yaer > 1855': no feature set, and as a condition: there is no column"),
        (f"title = {'x' * 3000!r} or", "year < 3", "no feature set, and as a condition: "),
    ],
)
def test_references_that_cannot_be(against: str, where: str | None, problem: str, made: FeatureSet) -> None:
    with pytest.raises(UsageError, match=problem):
        find_keywords(made, against, where=where)


def test_sets_that_do_not_fit(made: FeatureSet, tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    bare = make_set(tmp_path / "bare.features", tiny, random_texts(), keep_text=False)
    for features, reference in ((bare, made), (made, bare)):
        with pytest.raises(FeatureSetError, match="no words to look for; extract it again with texts"):
            find_keywords(features, reference)
    with pytest.raises(FeatureSetError, match="no words to look for"):
        count_words(bare)
    with pytest.raises(FeatureSetError, match=r"nowhere\.features"):
        find_keywords(made, "nowhere.features")


def test_an_empty_scope(made: FeatureSet) -> None:
    found = count_words(made, where="year > 9999", by="title")
    assert (found.documents, found.words, found.frequencies) == (0, 0, ())
    assert find_keywords(made, "rest", where="year > 9999").frequencies == ()
    assert find_keywords(made, "rest", where="year > 0", least=1).reference_words == 0


# ── collocates ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_dispersion_of_collocates(made: FeatureSet) -> None:
    """By each document's words near a usage, as lists of single words count them."""
    found = find_collocates(made, "bank", left=2, right=2, least=1, k=99)
    near = []
    for row in random_texts():
        words = [word for word, _ in tokens_of(row["text"]) if is_word(word)]
        places = [at for at, word in enumerate(words) if word == "bank"]
        around = {at + away for at in places for away in (-2, -1, 1, 2) if 0 <= at + away < len(words)} - set(places)
        near.append(Counter(words[at] for at in around))
    assert found.collocates
    for one in found.collocates:
        counts = [count[one.word] for count in near]
        assert (one.near, one.documents) == (sum(counts), sum(map(bool, counts)))
        assert one.dispersion == pytest.approx(deviation_of(counts, [count.total() for count in near]), abs=1e-4)


# ── the shell ───────────────────────────────────────────────────────────────────────────────────────────────


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["words", str(folder), *arguments])


def test_a_table(made: FeatureSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    folder = Path(str(made.folder))
    result = run(folder, "-k", "2")
    first = count_words(made).frequencies[0]
    assert result.exit_code == 0
    heading, line, *_ = result.stdout.splitlines()
    assert heading.split() == ["word", "found", "per", "million", "documents", "DP"]
    assert line.split() == [
        first.word, str(first.found), f"{first.per_million:,.1f}", str(first.documents), f"{first.dispersion:.2f}",
    ]  # fmt: skip
    assert f"*: 2 of {count_words(made).different} different ones, " in result.stderr
    assert run(folder, "--ngrams", "2").stdout == run(folder, "* *").stdout
    by_title = run(folder, "--by", "title").stdout.splitlines()[0].split()
    assert by_title[4:] == ["documents", "in", "title", "DP", "A", "B", "C", "D"]
    by_year = run(folder, "--by", "year").stdout.splitlines()[0].split()
    assert by_year[4:] == ["documents", "in", "year", "DP"]
    unfit = "the frequency in each slice does not fit on a line; --csv and --json have it"
    assert unfit in run(folder, "--by", "year").stderr
    assert unfit not in run(folder, "--by", "year", "--json").stderr + run(folder, "--by", "title").stderr
    monkeypatch.setenv("COLUMNS", "40")
    assert unfit not in run(folder, "--where", "year < 1870", "--against", "rest").stderr
    nothing = run(folder, "zebra")
    assert (nothing.exit_code, nothing.stdout) == (0, "nothing found\n")
    assert "'zebra' does not stand in 60 documents; zebra* also finds" in nothing.stderr
    unmet = run(folder, "--where", "year > 3000")
    assert (unmet.exit_code, unmet.stdout) == (0, "nothing found\n")
    assert "no document meets the condition; year goes from 1850 to 1909" in unmet.stderr


def test_keywords_in_the_shell(made: FeatureSet) -> None:
    folder = Path(str(made.folder))
    options = ("--where", "year < 1870", "--against", "rest", "--least", "1")
    result = run(folder, *options)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0].split()[-5:] == ["there", "per", "million", "log-likelihood", "log-ratio"]
    assert "against rest, " in result.stderr
    told = json.loads(run(folder, *options, "--json").stdout)
    found = find_keywords(made, "rest", where="year < 1870", least=1)
    assert [one["word"] for one in told["frequencies"]] == [one.word for one in found.frequencies]
    assert set(told["frequencies"][0]) == set(Keyword.__dataclass_fields__)
    rows = list(csv.DictReader(io.StringIO(run(folder, *options, "--csv").stdout)))
    assert [(row["word"], float(row["log_ratio"])) for row in rows] == [
        (one.word, one.log_ratio) for one in found.frequencies
    ]


def test_csv_has_a_row_for_each_slice(made: FeatureSet) -> None:
    found = count_words(made, by="title", k=3)
    rows = list(csv.DictReader(io.StringIO(run(Path(str(made.folder)), "--by", "title", "-k", "3", "--csv").stdout)))
    assert [(row["word"], row["slice"], int(row["slice_found"]), int(row["slice_words"])) for row in rows] == [
        (one.word, part.name, count, words)
        for one in found.frequencies
        for part, count, words in zip(found.slices, one.by_slice, found.slice_words, strict=True)
    ]
    plain = list(csv.DictReader(io.StringIO(run(Path(str(made.folder)), "-k", "3", "--csv").stdout)))
    assert list(plain[0]) == [name for name in WordFrequency.__dataclass_fields__ if name != "by_slice"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["bank", "--ngrams", "2"], "--ngrams 2 are rows of any words, and 'bank' says which; leave one out"),
        (["--slices", "2"], "--slices 2 are slices of a kept column; name it: --by year"),
        (["--measure", "log-ratio"], "--measure compares words with those of --against"),
        (["--csv", "--json"], "give one of the two"),
        (["--against", "rest"], "--against rest: the rest are the documents that do not meet the condition"),
        (["--against", "yaer = 3"], "--against 'yaer = 3': no feature set, and as a condition: there is no column"),
        (["--attribute", "lemma"], "'lemma' is not one of"),
        (["[lemma='go']"], "tokens have no lemma"),
        ([""], "the word to look for is empty"),
    ],
)
def test_wrong_uses(arguments: list[str], problem: str, made: FeatureSet) -> None:
    result = run(Path(str(made.folder)), *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in " ".join(result.stderr.split())


# ── kinds of sets ───────────────────────────────────────────────────────────────────────────────────────────


def test_pairs_are_two_texts_of_a_document(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    made = extractor(tiny("bert"), layers="last", pooling="mean")
    made.extract(memory_corpus([("the bank", "bank old"), ("old mill", "the mill")]), tmp_path / "p.features")
    found = count_words(tmp_path / "p.features")
    assert [(one.word, one.found, one.documents) for one in found.frequencies] == [
        ("bank", 2, 1), ("mill", 2, 1), ("old", 2, 2), ("the", 2, 2),
    ]  # fmt: skip
    assert {one.word for one in count_words(tmp_path / "p.features", ngrams=2).frequencies} == {
        "the bank", "bank old", "old mill", "the mill",
    }  # fmt: skip


def test_a_set_of_chosen_words_counts_all_words_of_its_texts(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    made = extractor(tiny("bert"), layers="last", pooling="word", only=("bank",))
    made.extract(memory_corpus(["the bank", "the mill"]), tmp_path / "o.features")
    assert [(one.word, one.found) for one in count_words(tmp_path / "o.features").frequencies] == [
        ("the", 2), ("bank", 1), ("mill", 1),
    ]  # fmt: skip


def test_one_word_that_is_spelled_as_two(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """Words that a corpus brings may hold a space; then one row is two words, or one."""
    records = [{"text": ["New York", "is"]}, {"text": ["new", "york"]}, {"text": ["New", "York"]}]
    made = extractor(tiny("bert"), layers="last", pooling="word")
    made.extract(memory_corpus(records, CorpusSettings(pretokenized=True)), tmp_path / "g.features")
    found = count_words(tmp_path / "g.features", "new york")
    assert [(one.word, one.found, one.documents) for one in found.frequencies] == [("new york", 3, 3)]


def test_particles_are_words_in_a_row(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """Under the Korean rule words follow one another without white space."""
    pytest.importorskip("kiwipiepy")
    made = extractor(tiny("bert"), layers="last", pooling="mean", words="korean")
    made.extract(memory_corpus(["은행에서 돈을 찾았다.", "은행에서, 돈을"]), tmp_path / "k.features")
    rows = {one.word: one.found for one in count_words(tmp_path / "k.features", ngrams=2).frequencies}
    assert (rows["은행에서"], rows["돈을"], rows["에서 돈"]) == (2, 2, 1)
    assert count_words(tmp_path / "k.features").words == sum(
        one.found for one in count_words(tmp_path / "k.features", k=99).frequencies
    )
    spaces = extractor(tiny("bert"), layers="last", pooling="mean")
    spaces.extract(memory_corpus(["은행에서 돈을 찾았다."]), tmp_path / "s.features")
    with pytest.raises(UsageError, match=r"against: its texts are split into words by another rule, spaces; extract"):
        find_keywords(tmp_path / "k.features", tmp_path / "s.features")


def test_documents_without_a_value_do_not_count(made: FeatureSet) -> None:
    titled = [row for row in random_texts() if row["title"] is not None]
    found = count_words(made, by="title")
    assert (found.documents, found.words) == (len(titled), sum(words_in(row["text"]) for row in titled))
    told = run(Path(str(made.folder)), "--by", "title").stderr
    assert f"in {len(titled)} documents in 4 slices of title" in told
    untitled = run(Path(str(made.folder)), "--by", "title", "--where", "title is null")
    assert "'*' does not stand in 0 documents in 0 slices of title" in untitled.stderr


def test_values_that_no_document_has_are_no_slices(made: FeatureSet) -> None:
    early = [row for row in random_texts() if row["year"] < 1853]
    found = count_words(made, by="year", where="year < 1853")
    assert [one.name for one in found.slices] == ["1850", "1851", "1852"]
    assert list(found.slice_words) == [words_in(row["text"]) for row in early]
    named = run(Path(str(made.folder)), "--by", "year", "--slices", "1850-1852,1900", "--where", "year < 1853", "--csv")
    rows = list(csv.DictReader(io.StringIO(named.stdout)))
    assert {(row["slice"], row["slice_per_million"] == "") for row in rows} == {("1850-1852", False), ("1900", True)}


def test_csv_has_one_heading_also_of_nothing(made: FeatureSet) -> None:
    folder = Path(str(made.folder))
    options = ("--where", "year < 1870", "--against", "rest", "--csv")
    assert run(folder, *options, "--least", "1000").stdout.strip() == run(folder, *options).stdout.splitlines()[0]
    by = (*options, "--by", "title")
    assert run(folder, *by, "--least", "1000").stdout.strip() == run(folder, *by).stdout.splitlines()[0]


def test_more_counts_than_memory_is_for(made: FeatureSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertfeat.usages.frequencies._MOST_COUNTS", 20)
    with pytest.raises(UsageError, match="9 words in 4 slices are more than 20 counts; give a smaller k, or fewer"):
        count_words(made, by="title", k=11)
    assert count_words(made, by="title", k=5).frequencies
