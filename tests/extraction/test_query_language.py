"""The warning about a query in a language that the model does not know."""

import pytest

from bertfeat import Extractor
from bertfeat.core import Document
from bertfeat.core.extraction.language_check import _are_strange


@pytest.fixture(scope="module")
def english() -> Extractor:
    return Extractor()  # the packaged default model, which was trained on English; only its tokenizer is loaded


@pytest.mark.parametrize(
    "text",
    ["서울", "강은 바다로 흐른다", "река течёт в море", "ποταμός", "النهر يصب في البحر", "הנהר זורם אל הים"],
)
def test_languages_that_the_model_does_not_know(english: Extractor, text: str) -> None:
    warning = english.language_warning(text)
    assert warning is not None
    assert "paraphrase-multilingual-MiniLM-L12-v2" in warning
    assert ("docs/ko/index.md" in warning) == (text in {"서울", "강은 바다로 흐른다"})


@pytest.mark.parametrize(
    "text",
    [
        "where does the river flow?",
        "qwxyzk vrtlk",
        "a naïve café in São Paulo",
        "“the bank” – a river",
        "😀😀 😀",
        "π r²",
    ],
)
def test_texts_that_it_can_read(english: Extractor, text: str) -> None:
    assert english.language_warning(text) is None


def test_each_text_of_many_is_judged_as_it_is_alone(english: Extractor) -> None:
    """The texts of a part are measured together; a query is alone."""
    texts = [
        "서울",
        "the river",
        "강은 바다로 흐른다",
        "",
        "река течёт в море",
        "two banks",
        "漢字とかな",
        "النهر يصب",
        "π r²",
    ]
    tokenized = english.tokenize_rows([Document(number, str(number), text) for number, text in enumerate(texts)])
    counts = tokenized.tokens.n_tokens, tokenized.tokens.n_unknown
    documents = tokenized.unique
    together = _are_strange(documents, *counts, least_letters=2)
    alone = [english.language_warning(document.text) is not None for document in documents]
    assert together.tolist() == alone
    assert together.any()
    assert not together.all()
    assert not len(_are_strange([], *(each[:0] for each in counts)))
