"""The order of a dictionary, against that of the Unicode Collation Algorithm."""

import random
from collections.abc import Callable
from pathlib import Path

from bertfeat.core.corpus import CorpusSettings, memory_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.usages import find_usages, find_usages_by
from bertfeat.where.collation import dictionary_key, dictionary_ranks
from tests.support.tiny_models import Tiny

ORDERED = [
    "-", ",", ".", "1", "10", "2", "²", "ae", "æ", "apfel", "Apfel", "Äpfel", "az", "ca", "Ça",
    "co-op", "coop", "de", "dej", "déjà", "elan", "élan", "Élan", "ete", "Ete", "été", "l", "ł",
    "lodz", "Łódź", "n", "ñ", "naive", "Naive", "naïve", "o", "ø", "oeuvre", "Œuvre", "ore",
    "ouvert", "Strasse", "Straße", "strassen", "zone", "zoo", "Zoo", "α", "Α", "β", "е", "ё", "ж",
    "я", "Я", "א", "אב", "בּ", "בית", "ب", "بَ", "بت", "क", "का", "कि", "ख", "가", "각", "나", "은행",
    "은행에서", "あ", "か", "が", "中",
]  # fmt: skip
"""As pyuca 1.2 sorts them, by the default table of the algorithm (UTS #10)."""


def test_words_have_the_order_of_the_algorithm() -> None:
    shuffled = random.Random(1).sample(ORDERED, len(ORDERED))
    assert sorted(shuffled, key=dictionary_key) == ORDERED
    assert list(dictionary_ranks(shuffled)) == ORDERED


def test_what_is_not_seen_decides_nothing() -> None:
    assert dictionary_key("\ufeffriver")[:2] == dictionary_key("ri\u00adver")[:2] == dictionary_key("river")[:2]
    assert dictionary_key("e\u0301te\u0301")[:3] == dictionary_key("été")[:3]
    assert len(dictionary_ranks(["e\u0301", "é"])) == 2  # and yet these are two values


def test_usages_are_sorted_so(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    """By the word beside them and by a column; and so are slices."""
    names = ["zoo", "Äpfel", "apfel", "Zoo", "élan", "Élan", "ete", "10", "2", "은행", "œuvre", "ouvert"]
    extractor = Extractor(tiny("bert").folder, layers="last", pooling="word", precision="fp32", device="cpu")
    documents = [{"text": f"bank {name}", "name": name} for name in names]
    extractor.extract(memory_corpus(documents, CorpusSettings(keep=("name",))), tmp_path / "c.features")
    features = FeatureSet(tmp_path / "c.features")
    wanted = ["10", "2", "apfel", "Äpfel", "élan", "Élan", "ete", "œuvre", "ouvert", "zoo", "Zoo", "은행"]
    assert [usage.values["name"] for usage in find_usages(features, "bank", k=99, sort="name").usages] == wanted
    assert [one.slice.name for one in find_usages_by(features, "bank", by="name", k=0).slices] == wanted
    beside = [usage.right.strip().lower() for usage in find_usages(features, "bank", k=99, sort="right").usages]
    assert beside == [name.lower() for name in wanted]
