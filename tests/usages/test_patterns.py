"""Patterns of words: random ones against going through all words, what cannot be asked, and every door."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
import regex
from click.testing import CliRunner, Result

from bertfeat import CorpusSettings, FeatureSet, find_usages
from bertfeat.cli import main
from bertfeat.core.words import fold_case
from bertfeat.errors import UsageError
from bertfeat.study import ChangeSettings, measure_change
from bertfeat.usages import find_collocates, find_senses, find_usages_by, open_word_index
from bertfeat.usages.pattern import MOST_BETWEEN, PATTERN_HELP, Pattern
from bertfeat.usages.pattern_search import find_pattern, outermost
from tests.support.runs import extractor, jsonl_file, text_file
from tests.support.tiny_models import Tiny

WORDS = (
    "go",
    "going",
    "gone",
    "Good",
    "bad",
    "the",
    "of",
    "don't",
    "river-bank",
    "a",
    "St.",
    "은행에서",
    "은행",
    "é",
    "5",
)
TAGS = ("NOUN", "VERB", "ADJ")

# ── random patterns against going through all words ─────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Token:
    """A word or punctuation mark of a text."""

    text: str
    tag: str
    start: int
    end: int
    spaced: bool  # whether white space stands before it


Holds = Callable[[Token], bool]


@dataclass(frozen=True)
class Piece:
    """A token of a pattern: as it is written, and as going through tokens finds it."""

    written: str
    ways: list[list[Holds]]  # one of these: tokens without white space between them
    least: int = 1
    most: int = 1
    bare: bool = True  # neither in quotes nor in brackets


def stops(tokens: Sequence[Token], at: int, pieces: Sequence[Piece], *, spaced: bool = False) -> Iterator[int]:
    """Where the matches end that begin at a token."""
    if not pieces:
        yield at
        return
    piece, following = pieces[0], pieces[1:]

    def repeated(at: int, times: int) -> Iterator[int]:
        if times >= piece.least:
            yield at
        for way in piece.ways if times < piece.most else ():
            here = tokens[at : at + len(way)]
            joined = len(here) == len(way) and not any(token.spaced for token in here[1:])
            if joined and (here[0].spaced or not spaced) and all(h(t) for h, t in zip(way, here, strict=True)):
                yield from repeated(at + len(way), times + 1)

    for stop in repeated(at, 0):
        yield from stops(tokens, stop, following, spaced=piece.bare and bool(following) and following[0].bare)


def wanted(texts: Sequence[Sequence[Token]], pieces: Sequence[Piece]) -> list[tuple[int, int, int]]:
    """Text, start and end of matches: of each beginning the shortest, of each end the one that begins first."""
    found = []
    for number, tokens in enumerate(texts):
        ends = set[int]()
        for at in range(len(tokens)):
            stop = min((stop for stop in stops(tokens, at, pieces) if stop > at), default=0)
            if stop and stop not in ends:
                found.append((number, tokens[at].start, tokens[stop - 1].end))
                ends.add(stop)
    return found


_WORD = regex.compile(r"\p{P}|[^\s\p{P}]+")


def split(text: str) -> list[str]:
    return [match[0] for match in _WORD.finditer(text)]


def same(word: str) -> Holds:
    return lambda token: fold_case(token.text) == fold_case(word)


def like(expression: str) -> Holds:
    return lambda token: regex.fullmatch(expression, fold_case(token.text), regex.IGNORECASE) is not None


def tagged(expression: str) -> Holds:
    return lambda token: regex.fullmatch(expression, token.tag) is not None


def literal(draw: Random) -> Piece:
    words = [draw.choice(WORDS) for _ in range(draw.choice((1, 1, 2, 3)))]
    return Piece("|".join(words), [list(map(same, split(word))) for word in words])


def wildcard(draw: Random) -> Piece:
    word = [*draw.choice(("going", "river", "은행에서", "bad"))]
    at = draw.randrange(len(word))
    word[at : at + draw.randint(0, 2)] = draw.choice(("*", "?", "?*"))
    matches = like("".join({"*": ".*", "?": "."}.get(letter, letter) for letter in word))
    return Piece("".join(word), [[lambda token: matches(token) and any(map(str.isalnum, token.text))]])


def with_mark(draw: Random) -> Piece:
    choices = (
        ("r*-b?nk", (r"r\P{P}*", "-", r"b\P{P}nk")),
        ("*'?", (r"\P{P}*", "'", r"\P{P}")),
        ("s?.", (r"s\P{P}", r"\.")),
    )
    written, parts = draw.choice(choices)
    return Piece(written, [list(map(like, parts))])


def in_brackets(draw: Random) -> Piece:
    """A token of CQL, repeated or not."""
    word, other = (draw.choice(("g.*", "go(ing|ne)?", "[a-d].*", "the|of", ".", "은행.*")) for _ in range(2))
    tag = draw.choice(("N.*|ADJ", "VERB", ".*"))
    choices: tuple[tuple[str, Holds], ...] = (
        (f'"{word}"', like(word)),
        ("[]", lambda _: True),
        (f'[tag="{tag}"]', tagged(tag)),
        (f'[word="{word}" & tag!="{tag}"]', lambda token: like(word)(token) and not tagged(tag)(token)),
        (f'[!(word="{word}" | pos="{tag}")]', lambda token: not (like(word)(token) or tagged(tag)(token))),
        (f'["{word}"|"{other}"]', lambda token: like(word)(token) or like(other)(token)),
        (f"[word='{word}']", like(word)),
        ('[word=="."]', lambda token: token.text == "."),
    )
    written, holds = draw.choice(choices)
    often = (("", 1, 1), ("", 1, 1), ("{2}", 2, 2), ("?", 0, 1), ("{1,3}", 1, 3), ("{0,2}", 0, 2), ("*", 0, 20))
    sign, least, most = draw.choice(often)
    return Piece(written + sign, [[holds]], least, most, bare=False)


def random_pattern(draw: Random) -> list[Piece]:
    """A pattern with one token at least that is there for certain, and is not any token; not repeated at its end."""
    while True:
        kinds = draw.choices((literal, wildcard, with_mark, in_brackets), (4, 3, 1, 4), k=draw.randint(1, 4))
        pieces = [kind(draw) for kind in kinds]
        sure = any(piece.least and not piece.written.startswith("[]") for piece in pieces)
        between = sum(piece.most - piece.least for piece in pieces)
        if sure and pieces[-1].least == pieces[-1].most and between <= MOST_BETWEEN:
            return pieces


def random_text(draw: Random) -> str:
    return "".join(
        draw.choice(WORDS) + draw.choice((" ", " ", " ", ", ", ". ", "-", "")) for _ in range(draw.randint(0, 25))
    )


@pytest.fixture(scope="module")
def tagged_set(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    """Texts of words that stand close to one another, and far apart, each with a tag."""
    draw, folder = Random(5), tmp_path_factory.mktemp("patterns")
    texts = [split(random_text(draw)) for _ in range(40)]
    records = [{"text": words, "tags": [draw.choice(TAGS) for _ in words]} for words in texts if words]
    corpus = jsonl_file(folder / "c.jsonl", records)
    reading = CorpusSettings(pretokenized=True, tag_column="tags")
    made = extractor(tiny("bert"), layers="last", pooling="word", max_length=32)
    made.extract(corpus, folder / "c.features", corpus_settings=reading, part_rows=7)
    return FeatureSet(folder / "c.features")


@pytest.fixture(scope="module")
def plain_set(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    draw, folder = Random(6), tmp_path_factory.mktemp("plain")
    corpus = text_file(folder / "c.txt", [random_text(draw) or "." for _ in range(40)])
    extractor(tiny("bert"), layers="last", pooling="word").extract(corpus, folder / "c.features", part_rows=7)
    return FeatureSet(folder / "c.features")


def tokens_of(features: FeatureSet) -> list[list[Token]]:
    """The words of each text, by its characters; with the tags that the set has."""
    found: list[list[Token]] = []
    for document in features.documents([]):
        assert document.text is not None
        tags = iter(document.tags or ())
        found.append([])
        for match in _WORD.finditer(document.text):
            spaced = document.text[: match.start()][-1:].isspace()
            found[-1].append(Token(match[0], next(tags, ""), match.start(), match.end(), spaced))
    return found


def found_by(features: FeatureSet, written: str) -> list[tuple[int, int, int]]:
    index = open_word_index(features)
    hits = find_pattern(index, Pattern.parse(written))
    hits = hits[outermost(hits)]
    places = index.characters(hits).tolist()
    return [(text, *place) for text, place in zip(index.text_of(hits.first).tolist(), places, strict=True)]


@pytest.mark.parametrize("name", ["tagged_set", "plain_set"])
def test_300_random_patterns(name: str, request: pytest.FixtureRequest) -> None:
    """Each is what going through all words finds, by regular expressions of Python."""
    features: FeatureSet = request.getfixturevalue(name)
    texts, draw, matches = tokens_of(features), Random(7), 0
    asked = 0
    while asked < 300:
        pieces = random_pattern(draw)
        written = " ".join(piece.written for piece in pieces)
        if name == "plain_set" and ("tag" in written or "pos" in written):
            continue
        expected = wanted(texts, pieces)
        assert found_by(features, written) == expected, written
        asked, matches = asked + 1, matches + len(expected)
    assert matches > 3000


def test_words_as_they_are_given(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """Words that a corpus brings may hold marks and spaces; signs stand for these, too."""
    rows = [["New York", "don't", "U.S.A."], ["new", "york", "a.b"]]
    corpus = jsonl_file(tmp_path / "c.jsonl", [{"text": row} for row in rows])
    made = extractor(tiny("bert"), layers="last", pooling="word")
    made.extract(corpus, tmp_path / "f", corpus_settings=CorpusSettings(pretokenized=True))
    features = FeatureSet(tmp_path / "f")
    expected = {
        "d*t": [(0, 9, 14)],
        "new york": [(0, 0, 8), (1, 0, 8)],
        '[word="new york"]': [(0, 0, 8)],
        "u*a.": [(0, 15, 21)],
        "a?b": [(1, 9, 12)],
        "u.s*": [(0, 15, 21)],
        "new\\ yor?": [(0, 0, 8)],
        r"u.s\.*": [(0, 15, 21)],
    }
    assert {pattern: found_by(features, pattern) for pattern in expected} == expected


# ── what cannot be asked ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "problem", "mark"),
    [
        ("a[b]", "within a word, [ has a backslash before it", " ^"),
        ('[lemma="go"]', "tokens have no lemma; they have word, and tag where the corpus has tags", " ^"),
        ("[lemma='go']", "tokens have no lemma", " ^"),
        ('[tga="x"]', "did you mean tag?", " ^"),
        ('go [word="a"', "this bracket is not closed", "   ^"),
        ('"a', "this quote is not closed", "^"),
        ("good|", "a word is missing here", "^^^^^"),
        ("tr.*", 'a regular expression stands in quotes, "tr.*", and tr\\.* is a full stop before any letters', "^^^^"),
        ("/tr/", "a regular expression stands in quotes", "^^^^"),
        ('[word="a" and tag="b"]', "between tests stands & or |, and ] after them", "          ^"),
        (r'"\Qbank"', "this is no regular expression", "^"),
        (" ".join(["a?"] * 101), "has more than 100 words and tests", ""),
        ("{go}", 'a token in brackets or quotes is repeated: "very"{1,2}', "^^^^"),
        ("(good|bad)", "one word or the other has no parentheses: good|bad", "^"),
        ("go </s>", "for words in one sentence there is spans='sentences'", "   ^^^^"),
        ("go [1..3] river", "so many words between are []{1,3}", "   ^^^^^^"),
        ('"a"{3,1}', "a token is repeated from 0 to 20 times, the smaller number first", "   ^^^^^"),
        ('"a"{21}', "a token is repeated from 0 to 20 times", "   ^^^^"),
        ('"a"{x}', "so often is written {2}, {1,3} or {2,}", "   ^^^"),
        ("[=]", 'a test such as word="go" is missing', " ^"),
        ("[word a]", 'a test is written word="…", with = or != and quotes', " ^"),
        ('[(word="a"]', "this parenthesis is not closed", "          ^"),
        ("a\\", "a backslash stands before the sign that it makes a letter", " ^"),
        ('"of course"', "what stands in quotes is one word", "^"),
        ("[]", "'[]' names no word", ""),
        ('go [tag="ADJ"]+', "ends in a token that may be repeated, and the shortest match counts", ""),
        ("[]{0,20} go []{0,20} on []? a", "is longer by more than 40 words in one place than in another", ""),
        (f'[{"!" * 51}"a"]', "tests are nested 50 deep at most", "^"),
        (f'[{"(" * 51}"a"]', "tests are nested 50 deep at most", "^"),
        ('"cafe"%d', "after a token in quotes or brackets comes white space, or how often", "      ^"),
        ('"a" & "b"', "& does nothing here; as a word it is \\&", "    ^"),
        ('"a" within s', 'within does nothing here; as a word it is "within"', "    ^^^^^^"),
        ('[tag="ADJ"] * "x"', "* does nothing here; as a word it is \\*, and any word is [word=", "            ^"),
        (r'"\p{Lu}.*"', r"case does not matter: \p{L} is any letter", "^"),
        ('go "("', "this is no regular expression: missing ): (", "   ^^^"),
        ('"a)|(b"', "this is no regular expression", "^"),
        (r'"(?=a)"', "this is no regular expression", "^"),
        ('"a"? []{2}', "names no word", ""),
        ('[word="b" & ', 'a test such as word="go" is missing', ""),
    ],
)
def test_what_cannot_be_asked(pattern: str, problem: str, mark: str) -> None:
    """The message shows the place, and ends with what can be asked."""
    with pytest.raises(UsageError) as raised:
        Pattern.parse(pattern)
    lines = str(raised.value).splitlines()
    assert problem in lines[0]
    assert lines[-1] == PATTERN_HELP
    if mark:
        assert lines[1].strip() == pattern
        assert lines[2].removeprefix("    ").startswith(mark)


def test_patterns_that_the_message_names() -> None:
    named = ("*ing", "s?irit", "good|bad", "spirit of the *", "go []{1,3} river", '"s.*t"', '[tag="V.*" & word!="was"]')
    for pattern in named:
        assert pattern in PATTERN_HELP
        assert Pattern.parse(pattern).steps
    assert [step.token for step in Pattern.parse("f\\*\\*\\*").steps] == [
        step.token for step in Pattern.of_words("f***").steps
    ]


def test_a_set_without_tags(plain_set: FeatureSet) -> None:
    with pytest.raises(UsageError, match="asks for tags, and the words of the set have none; extract a corpus that"):
        find_usages(plain_set, '[tag="N.*"]')


def test_words_that_a_message_names(plain_set: FeatureSet) -> None:
    with pytest.raises(UsageError, match=re.escape('any word is [word=".*\\pL.*"]')):
        Pattern.parse('"go" *')
    with pytest.raises(UsageError, match=re.escape('a word of one letter is "."')):
        Pattern.parse('"go" ?')
    words = [usage.word for usage in find_usages(plain_set, "*", k=10_000).usages]
    lettered = [usage.word for usage in find_usages(plain_set, '[word=".*\\pL.*"]', k=10_000).usages]
    assert lettered == [word for word in words if any(map(str.isalpha, word))] != []
    for usage in find_usages(plain_set, '"."', k=10_000).usages:
        assert len(usage.word) == 1


def test_letters_that_case_changes(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """Words and expressions are compared in one form: composed, and without case."""
    corpus = text_file(tmp_path / "c.txt", ["Die Straße, die STRASSE.", "e\u0301t\u00e9 und ÉTÉ, a.b"])
    extractor(tiny("bert"), layers="last", pooling="word").extract(corpus, tmp_path / "f")
    features = FeatureSet(tmp_path / "f")
    counts = {
        "Straße": 2,
        '"Straße"': 2,
        '[word=="STRASSE"]': 2,
        "str?ße": 2,
        '"e\u0301t."': 2,
        '"[É]t\u00c9"': 2,
        '[word=="."]': 2,
        '[word!="\\p{L}.*"] und': 0,
        'und "été"%c': 1,
    }
    assert {pattern: len(found_by(features, pattern)) for pattern in counts} == counts


# ── kinds of sets ───────────────────────────────────────────────────────────────────────────────────────────


def test_no_match_goes_from_a_text_into_its_pair(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    corpus = text_file(tmp_path / "c.txt", ["go on ||| on the bank", "the ||| go on the way"])
    reading = CorpusSettings(pairs=True)
    extractor(tiny("bert"), layers="last", pooling="word").extract(corpus, tmp_path / "f", corpus_settings=reading)
    found = find_usages(tmp_path / "f", "on []? the")
    assert [(usage.row, usage.word) for usage in found.usages] == [(0, "on the"), (1, "on the")]
    assert find_usages(tmp_path / "f", "on on|go").found == 0
    assert find_usages(tmp_path / "f", '[]{2} "the"').found == 1


def test_matches_within_sentences_and_near_a_word(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """What crosses a border takes nothing away from what does not."""
    texts = ["He saw the cat. The hat of the man.", "bank of the river"]
    extractor(tiny("bert"), layers="last", pooling="word").extract(text_file(tmp_path / "c.txt", texts), tmp_path / "f")
    whole, within = (find_usages(tmp_path / "f", "the []{0,5} of", spans=spans) for spans in (None, "sentences"))
    assert [usage.word for usage in whole.usages] == ["the cat. The hat of"]
    assert [usage.word for usage in within.usages] == ["The hat of"]
    assert find_collocates(tmp_path / "f", "the []{0,5} of", least=1, spans="sentences").found == 1
    assert find_usages(tmp_path / "f", "bank", near="[]{0,3} river").found == 1


def test_many_ways_to_one_match(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """They are one, at each step, so that their number does not grow."""
    corpus = text_file(tmp_path / "c.txt", ["-" * 60, "a - b"])
    extractor(tiny("bert"), layers="last", pooling="word").extract(corpus, tmp_path / "f")
    features = FeatureSet(tmp_path / "f")
    several = Piece("-|--|---", [[same("-")] * number for number in (1, 2, 3)])
    pieces = [several, Piece('"-"', [[like("-")]], bare=False)] * 3
    assert found_by(features, " ".join(piece.written for piece in pieces)) == wanted(tokens_of(features), pieces)
    assert len(found_by(features, " ".join(['-|--|--- "-"'] * 20))) == 60 - 40 + 1


def test_sets_of_tokens_and_of_chosen_words(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """A set that keeps some words answers patterns of these, and says what it cannot."""
    records = [{"text": ["go", "on", "going"], "tags": ["V", "P", "V"]}] * 3
    corpus = jsonl_file(tmp_path / "c.jsonl", records)
    reading = CorpusSettings(pretokenized=True, tag_column="tags")
    extractor(tiny("bert"), layers="last", pooling="token").extract(corpus, tmp_path / "t", corpus_settings=reading)
    assert find_usages(tmp_path / "t", "go|going", k=2).found == 6
    with pytest.raises(
        UsageError, match="extract a corpus that has tags, such as CoNLL-U, with pooling='word' and wit"
    ):
        find_usages(tmp_path / "t", '[tag="V"]')
    few = extractor(tiny("bert"), layers="last", pooling="word", only=("go", "on*"))
    few.extract(corpus, tmp_path / "o", corpus_settings=reading)
    assert find_usages(tmp_path / "o", "go|on").found == 6
    with pytest.raises(UsageError, match=r"extract the corpus again with only='go,going' or without only"):
        find_usages(tmp_path / "o", "go|going")
    with pytest.raises(UsageError, match=r"words that the set keeps: go, on\*; extract the corpus again without only"):
        find_usages(tmp_path / "o", "g*g")


# ── every door ──────────────────────────────────────────────────────────────────────────────────────────────


def test_doors_in_python(tagged_set: FeatureSet) -> None:
    found = find_usages(tagged_set, "go|going", k=1000).found
    assert found == find_usages(tagged_set, '"go(ing)?"', k=0).found == len(found_by(tagged_set, "go|going"))
    assert find_usages(tagged_set, '[tag="VERB"]', k=3).usages
    assert find_collocates(tagged_set, "go|going", least=1).found == found
    senses = find_senses(tagged_set, "go|going", senses=2)
    assert senses.found == found
    nearest = find_usages(tagged_set, "g*ng", like="He was going to the bank.", k=5)
    assert all(usage.score is not None for usage in nearest.usages)
    with pytest.raises(UsageError, match="asks for tags, which a sentence does not have"):
        find_usages(tagged_set, '[tag="VERB"]', like="He was going.")
    assert find_usages(tagged_set, '[tag="VERB"]', like="He was *going*.", k=2).usages


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_doors_in_the_shell(plain_set: FeatureSet) -> None:
    folder = Path(str(plain_set.folder))
    found = json.loads(run("usages", folder, "the []{0,2} g*", "-k", "0", "--json").stdout)
    assert found["found"] == len(found_by(plain_set, "the []{0,2} g*")) > 0
    assert run("collocates", folder, "g?*", "--least", "1").exit_code == 0
    wrong = run("usages", folder, '[lemma="go"]')
    assert wrong.exit_code == 2
    assert PATTERN_HELP in wrong.stderr
    assert "Traceback" not in wrong.stderr
    none = run("usages", folder, "train,trains")
    assert none.exit_code == 0
    assert "is written train|trains\n" in none.stderr
    assert PATTERN_HELP in none.stderr
    assert "trainx* also finds words that begin so" in run("usages", folder, "trainx").stderr


def test_patterns_in_slices_and_change(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    records = [{"text": f"He was going to go, number {at}.", "year": 1900 + at} for at in range(12)]
    corpus = jsonl_file(tmp_path / "c.jsonl", records)
    extractor(tiny("bert"), layers="last", pooling="word").extract(
        corpus, tmp_path / "f", corpus_settings=CorpusSettings(keep=("year",))
    )
    sliced = find_usages_by(tmp_path / "f", "go|going", by="year", slices=2, k=0)
    assert [one.found for one in sliced.slices] == [12, 12]
    changed = measure_change(tmp_path / "f", ["go|going", "n*"], "year", ChangeSettings(slices=2, least=5))
    assert {one.word for one in changed.words} == {"go|going", "n*"}
