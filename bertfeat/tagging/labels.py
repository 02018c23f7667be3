"""The labels that a tagger knows, between tags as they are written in files and numbers as a network has them."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bertfeat.errors import TaggerError, UsageError
from bertfeat.tagging.schemes import Scheme, detect_scheme, to_bio, to_iobes

_WRITERS: dict[Scheme, Callable[[Sequence[str]], Sequence[str]]] = {
    Scheme.BIO: to_bio,
    Scheme.IOBES: to_iobes,
    Scheme.PLAIN: lambda tags: tags,
}


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels by number, in the scheme that the network learns."""

    names: tuple[str, ...]
    scheme: Scheme  # BIO or IOBES for spans, PLAIN for other tags

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], *, inside: Scheme = Scheme.BIO) -> "Labels":
        """The labels of some sentences' tags; spans become those of the scheme ``inside``.

        Raises:
            TaggerError: one label only, so that there is nothing to learn.
            CorpusError: tags of spans and others among one another.
        """
        read = [tuple(map(sys.intern, tags)) for tags in sentences]
        scheme = inside if detect_scheme(read).has_spans else Scheme.PLAIN
        names = {label for tags in dict.fromkeys(read) for label in _WRITERS[scheme](tags)}
        if len(names) < 2:
            raise TaggerError(
                f"every word of the training sentences has the tag {min(names, default='')!r}, so there is nothing to "
                f"learn; see that the right column is read: --tag-column names another"
            )
        return cls(tuple(sorted(names, key=lambda name: (name != "O", name[2:], name))), scheme)

    @property
    def has_spans(self) -> bool:
        """Whether tags stand for spans of words."""
        return self.scheme.has_spans

    def __len__(self) -> int:
        return len(self.names)

    def numbers(self, tags: Sequence[str]) -> Iterator[int]:
        """The number of each of a sentence's tags, whichever scheme they are in.

        Raises:
            UsageError: a tag that is not among the labels.
        """
        known = {name: number for number, name in enumerate(self.names)}
        for tag in _WRITERS[self.scheme](tags):
            if tag not in known:
                raise UsageError(f"the tag {tag!r} is not among those that the tagger learnt: {', '.join(self.names)}")
            yield known[tag]

    def tags(self, numbers: Iterable[int]) -> list[str]:
        """The tags of a sentence: BIO for spans, whatever scheme is learnt."""
        names = [self.names[number] for number in numbers]
        return to_bio(names) if self.has_spans else names

    def unknown(self, sentences: Iterable[Sequence[str]]) -> list[str]:
        """Tags (of spans: in the scheme that is learnt) that no label stands for."""
        written = {label for tags in dict.fromkeys(map(tuple, sentences)) for label in _WRITERS[self.scheme](tags)}
        return sorted(written - set(self.names))
