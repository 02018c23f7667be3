"""A warning where the model does not know the language of the corpus."""

from collections.abc import Sequence

from bertfeat.corpus import Document
from bertfeat.errors import parameter
from bertfeat.tokens import TokenizedDocuments
from bertfeat.words import split_words

MOST_UNKNOWN = 0.05  # share of [UNK] among tokens
MOST_PIECES = 4.0  # a word
MULTILINGUAL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
_SAMPLE = 1000
_COUNTED = 10_000  # characters of a text whose words are counted
_LEAST_WORDS = 20  # fewer say nothing about a corpus


def corpus_warnings(documents: Sequence[Document], tokenized: TokenizedDocuments) -> list[str]:
    """Warn of a tokenizer that does not know the corpus's language, by a part's first 1,000 documents."""
    sample = documents[:_SAMPLE]
    tokens = int(tokenized.n_tokens[: len(sample)].sum())
    unknown = int(tokenized.n_unknown[: len(sample)].sum())
    words = sum(len(d.words) if d.words is not None else _count_words(d.text) for d in sample)
    words += sum(_count_words(d.pair) for d in sample if d.pair is not None)
    if words < _LEAST_WORDS or not tokens:
        return []
    problems = []
    if unknown / tokens > MOST_UNKNOWN:
        problems.append(f"{unknown / tokens:.0%} of the tokens are unknown to the model")
    if tokens / words > MOST_PIECES:
        problems.append(f"the model splits a word into {tokens / words:.1f} pieces on average")
    if not problems:
        return []
    another = parameter("model", MULTILINGUAL)
    remedy = f"it does not know this language well; a multilingual model does, for example {another}"
    return [f"{' and '.join(problems)}: {remedy}"]


def _count_words(text: str) -> float:
    """About how many words a text has: those of its beginning, taken for the whole."""
    beginning = text[:_COUNTED]
    return len(split_words(beginning)) * len(text) / max(1, len(beginning))
