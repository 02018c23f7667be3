"""A text with a tag for each of its words, and the spans that the tags stand for."""

from dataclasses import dataclass

from bertfeat.display import displayed
from bertfeat.tagging.schemes import read_spans


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A labelled span of a text."""

    label: str
    start: int  # characters
    end: int
    text: str | None  # None where the features were made without texts


@displayed
@dataclass(frozen=True, slots=True)
class TaggedText:
    """A text with a tag for each of its words."""

    row: int
    id: str
    text: str | None
    words: tuple[str, ...] | None  # None where the features were made without texts
    start: tuple[int, ...]  # character offsets of the words
    end: tuple[int, ...]
    tags: tuple[str, ...]  # BIO, or plain ones
    gold: tuple[str, ...] | None  # tags that the input brought

    @property
    def spans(self) -> tuple[TextSpan, ...]:
        """The spans that BIO tags stand for.

        Raises:
            CorpusError: the tags are plain ones.
        """
        bounds = [(span.label, self.start[span.start], self.end[span.stop - 1]) for span in read_spans(self.tags)]
        text = self.text
        return tuple(
            TextSpan(name, begin, end, None if text is None else text[begin:end]) for name, begin, end in bounds
        )
