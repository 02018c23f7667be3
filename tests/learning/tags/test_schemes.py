"""Tag schemes against seqeval, and round trips between them."""

import random
from itertools import product

import pytest
from seqeval.metrics.sequence_labeling import get_entities

from bertfeat.errors import CorpusError
from bertfeat.learning import Scheme, TagSpan, detect_scheme, read_spans, to_bio, to_iobes

TAGS = ("O", *(f"{prefix}-{label}" for prefix in "BIES" for label in ("A", "B-2")))
# as CoNLL 2003 is tagged
# fmt: off
REAL = ["I-MISC", "O", "O", "I-MISC", "I-MISC", "B-MISC", "O", "I-ORG", "I-ORG", "I-PER", "B-PER", "I-PER"]
# fmt: on


def bilou(tags: list[str]) -> list[str]:
    return [{"E": "L", "S": "U"}.get(tag[0], tag[0]) + tag[1:] for tag in tags]


def random_spans(length: int, seed: int) -> list[TagSpan]:
    chance = random.Random(seed)
    spans, at = [], 0
    while at < length:
        stop = min(length, at + chance.randint(1, 3))
        if chance.random() < 0.6:
            spans.append(TagSpan(chance.choice("AB"), at, stop))
        at = stop
    return spans


def bio(spans: list[TagSpan], length: int) -> list[str]:
    tags = ["O"] * length
    for span in spans:
        for at in range(span.start, span.stop):
            tags[at] = ("B-" if at == span.start else "I-") + span.label
    return tags


def iob1(spans: list[TagSpan], length: int) -> list[str]:
    tags, before = ["O"] * length, TagSpan("", 0, -1)
    for span in spans:
        for at in range(span.start, span.stop):
            touches = at == before.stop and span.label == before.label
            tags[at] = ("B-" if touches else "I-") + span.label
        before = span
    return tags


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_every_sequence_reads_as_seqeval_reads_it(length: int) -> None:
    tags = TAGS if length < 4 else TAGS[::2]
    for sequence in product(tags, repeat=length):
        expected = [TagSpan(label, first, last + 1) for label, first, last in get_entities(list(sequence))]
        assert read_spans(sequence) == expected
        assert read_spans(bilou(list(sequence))) == expected


def test_iob1_as_conll_2003_has_it() -> None:
    assert read_spans(REAL) == [
        *(TagSpan("MISC", 0, 1), TagSpan("MISC", 3, 5), TagSpan("MISC", 5, 6), TagSpan("ORG", 7, 9)),
        *(TagSpan("PER", 9, 10), TagSpan("PER", 10, 12)),
    ]
    assert " ".join(to_bio(REAL)) == "B-MISC O O B-MISC I-MISC B-MISC O B-ORG I-ORG B-PER B-PER I-PER"
    assert " ".join(to_iobes(REAL)) == "S-MISC O O B-MISC E-MISC S-MISC O B-ORG E-ORG S-PER B-PER E-PER"


@pytest.mark.parametrize("seed", range(40))
def test_schemes_turn_into_one_another(seed: int) -> None:
    spans = random_spans(15, seed)
    written = bio(spans, 15)
    for tags in (written, to_iobes(written), bilou(to_iobes(written)), iob1(spans, 15)):
        assert read_spans(tags) == spans
        assert to_bio(tags) == written
        assert to_iobes(tags) == to_iobes(written)


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("O B-A I-A B-A", Scheme.BIO),
        ("O B-A I-B", Scheme.BIO),  # one I- where no span is, as a tagger may well write
        ("B-A I-A B-A", Scheme.BIO),
        ("O O", Scheme.BIO),
        ("B I O", Scheme.BIO),
        ("I-A B-A O I-B I-A", Scheme.IOB1),
        ("O I-A I-A", Scheme.IOB1),
        ("O S-A B-A E-A", Scheme.IOBES),
        ("U-A O", Scheme.IOBES),
        ("NN VB -LRB-", Scheme.PLAIN),
        ("O PERSON O", Scheme.PLAIN),
    ],
)
def test_schemes_are_found(tags: str, scheme: Scheme) -> None:
    assert detect_scheme([tags.split(), ["O"]] if scheme is not Scheme.PLAIN else [tags.split()]) is scheme
    assert scheme.has_spans is (scheme is not Scheme.PLAIN)


def test_tags_without_labels_make_spans() -> None:
    assert read_spans(["B", "I", "O", "B"]) == [TagSpan("_", 0, 2), TagSpan("_", 3, 4)]
    assert read_spans([]) == []


@pytest.mark.parametrize(
    ("tags", "wrong"),
    [
        ("B-PER o", "o"),
        ("o I-PER I-PER o", "o"),
        ("b-per i-per o", "b-per"),
        ("o b-loc O", "o"),
        ("B-PER -PER", "-PER"),
        ("B-PER 0", "0"),
        ("_ B-PER I-PER", "_"),
        ("B-PER Other I-PER", "Other"),
        ("B_PER I_PER O", "B_PER"),
        ("O B:LOC I:LOC", "B:LOC"),
        ("O PER-B PER-I LOC-B", "PER-B"),
        ("out B/PER", "out"),
    ],
)
def test_tags_of_spans_in_other_spellings_are_no_plain_ones(tags: str, wrong: str) -> None:
    with pytest.raises(CorpusError, match=f"sentence 1: '{wrong}' is a tag of spans in another spelling; write a"):
        detect_scheme([tags.split()])


@pytest.mark.parametrize(
    "tags", ["NN _ VB", "B_PER NN", "a-b c-d", "0 1 B", "V_S N_S _ other.x", "B-NN _ VB", "B-NN VB", "o a", "b-x c"]
)
def test_other_tags_are_plain(tags: str) -> None:
    assert detect_scheme([tags.split()]) is Scheme.PLAIN


def test_a_mistyped_tag_does_not_make_all_tags_plain() -> None:
    with pytest.raises(CorpusError, match="sentence 2: 'PER' stands among tags of spans such as 'B-PER'"):
        detect_scheme([["O", "B-PER"], ["PER"]])
    with pytest.raises(CorpusError, match="sentence 1: 'NOUN' stands among tags of spans such as 'B-PER'"):
        detect_scheme([["B-PER", "I-PER", "NOUN"]])
    with pytest.raises(CorpusError, match="'NN' is no tag of a span"):
        read_spans(["O", "NN"])
